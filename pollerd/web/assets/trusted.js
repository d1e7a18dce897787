// The one way in which text becomes a script's address or markup: workers' addresses, and fragments of our server.
const same = {
  createScriptURL: (url) => {
    if (!/^(\/assets\/[0-9a-f]{16}\/live-worker\.js|\/service-worker\.js\?style=[\w/.]+)$/.test(url)) throw new TypeError("not a script of ours");
    return url;
  },
  createHTML: (text) => text,
};
const policy = globalThis.trustedTypes ? globalThis.trustedTypes.createPolicy("pollerd", same) : same;

/** Returns a worker's address as the browser wants it. */
export function scriptUrl(url) {
  return policy.createScriptURL(url);
}

/** Gets a fragment of ours and puts it into `place`; throws where the server refuses. */
export async function putFragment(place, url, options = {}) {
  const answer = await fetch(url, { ...options, headers: { "X-Fragment": "1" } });
  if (answer.headers.get("X-Fragment") !== "1") throw new Error(`${answer.status}`);
  place.innerHTML = policy.createHTML(await answer.text());
}
