// The bar above an archived page follows what the frame shows.
(() => {
  "use strict";
  const frame = document.querySelector("iframe");
  const bar = document.getElementById("url");
  const captures = document.getElementById("captures");
  addEventListener("message", (event) => {
    if (event.source !== frame.contentWindow || event.origin !== frame.dataset.content) return;
    const { stamp, url, title } = Object(event.data);
    if (typeof url !== "string" || !/^https?:\/\//.test(url) || !/^\d{4,14}$/.test(stamp)) return;
    bar.value = url;
    document.title = String(title || url).slice(0, 300);
    captures.href = `/captures?url=${encodeURIComponent(url)}`;
    captures.textContent = "captures";
    const [, year, month, day, hour, minute, second] = /^(....)(..)(..)(..)(..)(..)$/.exec(stamp.padEnd(14, "0"));
    document.getElementById("when").textContent = `${year}-${month}-${day} ${hour}:${minute}:${second} UTC`;
    history.replaceState(null, "", `/view/${stamp}/${url}`);
  });
})();
