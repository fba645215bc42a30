// Keeps the first page live: whenever something about the crawls has changed, their list is asked for again as the server
// renders it. Text from strangers is escaped in one place only, on the server.
"use strict";

const list = document.getElementById("crawls");
const live = document.getElementById("live");
let asked = false;
let again = false;

async function refresh() {
  if (asked) {
    again = true;
    return;
  }
  asked = true;
  try {
    const answer = await fetch("/", { headers: { Accept: "text/html" } });
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      list.replaceChildren(...page.getElementById("crawls").childNodes);
      document.title = page.title;
    }
  } catch {
    live.textContent = "the server does not answer";
  }
  asked = false;
  if (again) {
    again = false;
    refresh();
  }
}

const events = new EventSource("/api/v1/events");
events.addEventListener("crawls", () => {
  live.textContent = "live";
  refresh();
});
events.addEventListener("error", () => {
  live.textContent = "the connection is lost; trying again";
});
