// Shows a page of ours in place of the browser's error while pollerd cannot be reached. Nothing else is kept: pages show
// what people watch, and are read anew each time.
const KEPT = "offline";
const PAGE = "/offline";
const style = new URL(self.location.href).searchParams.get("style") ?? "";

self.addEventListener("install", (event) => {
  const files = /^\/assets\/[0-9a-f]{16}\/style\.css$/.test(style) ? [PAGE, style] : [PAGE];
  event.waitUntil(
    caches
      .delete(KEPT)
      .then(() => caches.open(KEPT))
      .then((kept) => kept.addAll(files)),
  );
  self.skipWaiting();
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { mode, url } = event.request;
  if (mode === "navigate") event.respondWith(fetch(event.request).catch(() => caches.match(PAGE)));
  else if (style !== "" && url === self.location.origin + style)
    event.respondWith(caches.match(style).then((kept) => kept ?? fetch(event.request)));
});
