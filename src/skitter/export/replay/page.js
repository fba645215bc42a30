// The first script of every archived page: what its own scripts ask for comes from the archive too.
// The server and its Content-Security-Policy keep pages in; this only makes more of them work.
(() => {
  "use strict";
  const own = document.currentScript;
  if (own) own.remove();
  const here = (place) => /^\/(\d{4,14})\/(https?:\/\/[\s\S]*)$/.exec(place.pathname + place.search);
  let found = here(location);
  try {
    if (!found && parent !== window) found = here(parent.location); // about:srcdoc
  } catch (error) { /* a frame of another origin */ }
  if (!found) return;
  const [, stamp, page] = found;
  const server = location.origin === "null" ? parent.location.origin : location.origin;
  const prefix = `${server}/${stamp}/`;
  const known = /^(?:https?:\/\/[^/]+)?\/\d{4,14}\/https?:\//;
  const elsewhere = /^\s*(?:$|#|(?!https?:)[a-z][a-z0-9+.-]*:)/i;

  const base = () => (document.baseURI.startsWith(prefix) ? document.baseURI.slice(prefix.length) : page);
  const rewritten = (value) => {
    const text = String(value);
    if (elsewhere.test(text) || (known.test(text) && (text.startsWith("/") || text.startsWith(server)))) return value;
    try {
      let url = new URL(text, base());
      if (url.origin === server) url = new URL(url.pathname + url.search + url.hash, page);
      return url.protocol === "http:" || url.protocol === "https:" ? prefix + url.href : value;
    } catch (error) {
      return value;
    }
  };
  const rewrittenSet = (value) =>
    String(value).replace(/(^|,\s+|,(?=\S*\/\/))(\s*)([^\s,][^\s]*[^\s,]|[^\s,])/g, (all, comma, gap, url) => comma + gap + rewritten(url));
  const rewrittenMarkup = (value) =>
    String(value).replace(
      /(\s(?:src|href|poster|action|background|data)\s*=\s*)(["']?)((?:https?:)?\/[^"'\s>]*)\2/gi,
      (all, before, quote, url) => `${before}${quote}${rewritten(url)}${quote}`);

  const setter = (type, name, change) => {
    const owner = window[type] && window[type].prototype;
    const property = owner && Object.getOwnPropertyDescriptor(owner, name);
    if (!property || !property.set) return;
    Object.defineProperty(owner, name, { ...property, set(value) { property.set.call(this, change(value)); } });
  };
  for (const [name, types] of Object.entries({
    src: "Image Script IFrame Frame Media Source Track Embed Input",
    href: "Link Anchor Area", poster: "Video", data: "Object", action: "Form",
  })) for (const type of types.split(" ")) setter(`HTML${type}Element`, name, rewritten);
  setter("HTMLImageElement", "srcset", rewrittenSet);
  setter("HTMLSourceElement", "srcset", rewrittenSet);
  setter("Element", "innerHTML", rewrittenMarkup);
  setter("Element", "outerHTML", rewrittenMarkup);

  const wrap = (owner, name, change) => {
    const inner = owner && owner[name];
    if (typeof inner !== "function") return;
    owner[name] = function (...values) { return inner.apply(this, change(values, this)); };
  };
  const attributes = /^(?:src|href|poster|action|background|data|xlink:href)$/i;
  wrap(Element.prototype, "setAttribute", ([name, value]) =>
    [name, attributes.test(name) ? rewritten(value) : /^srcset$/i.test(name) ? rewrittenSet(value) : value]);
  wrap(Element.prototype, "setAttributeNS", ([space, name, value]) =>
    [space, name, attributes.test(name) ? rewritten(value) : value]);
  wrap(Element.prototype, "insertAdjacentHTML", ([where, text]) => [where, rewrittenMarkup(text)]);
  wrap(Document.prototype, "write", (texts) => texts.map(rewrittenMarkup));
  wrap(Document.prototype, "writeln", (texts) => texts.map(rewrittenMarkup));
  wrap(window, "fetch", ([input, ...rest]) =>
    [input instanceof Request ? new Request(rewritten(input.url), input) : rewritten(input), ...rest]);
  wrap(XMLHttpRequest.prototype, "open", ([method, url, ...rest]) => [method, rewritten(url), ...rest]);
  for (const name of ["pushState", "replaceState"])
    wrap(History.prototype, name, ([state, title, url]) => [state, title, url == null ? url : rewritten(url)]);
  for (const name of ["Worker", "SharedWorker", "EventSource"])
    if (window[name])
      window[name] = new Proxy(window[name], { construct: (type, [url, ...rest]) => new type(rewritten(url), ...rest) });
  navigator.sendBeacon = () => true;

  const cookies = new Map();
  try {
    Object.defineProperty(Document.prototype, "cookie", {
      configurable: true,
      get: () => [...cookies].map(([name, value]) => `${name}=${value}`).join("; "),
      set(text) {
        const [pair] = String(text).split(";");
        const at = pair.indexOf("=");
        cookies.set(pair.slice(0, Math.max(at, 0)).trim(), pair.slice(at + 1).trim());
      },
    });
  } catch (error) { /* it stays as it is */ }
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel"]) delete window[name];
  if (navigator.serviceWorker)
    navigator.serviceWorker.register = () => Promise.reject(new DOMException("not in an archive", "SecurityError"));

  addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest("a[target], area[target]");
    if (link && /^_(?:blank|top|new)$/i.test(link.target)) link.target = "skitter-replay";
  }, true);
  const tell = () => {
    const now = here(location);
    if (now && parent !== window) parent.postMessage({ stamp: now[1], url: now[2] + location.hash, title: document.title }, "*");
  };
  addEventListener("DOMContentLoaded", tell);
  addEventListener("load", tell);
  addEventListener("hashchange", tell);
})();
