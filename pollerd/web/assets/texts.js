// Texts in the reader's language: a page in another language than English has translations of the texts of scripts.
const { lang } = document.documentElement;
const translations = JSON.parse(document.body.dataset.texts ?? "{}");
const plurals = new Intl.PluralRules(lang);
/** The language of the page, as its reader's region writes it if they read that language: dates of en-GB are not those of en-US. */
export const language = navigator.languages.find((tag) => tag.split("-")[0] === lang.split("-")[0]) ?? lang;

/** Returns the parts of a text, with the values in its `{name}`s: texts or elements. */
export function _parts(text, values = {}) {
  return (translations[text] ?? text).split(/\{(\w+)\}/).map((part, at) => (at % 2 ? values[part] : part));
}

/** Returns a text. */
export function _(text, values) {
  return _parts(text, values).join("");
}

/** Returns the text for a number, which is its `{count}`. */
export function n_(one, many, count) {
  const form = plurals.select(count);
  const forms = translations[one] ?? { one, other: many };
  return _(forms[form] ?? forms.other, { count: count.toLocaleString(language) });
}
