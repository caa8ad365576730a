// Reads this page again, and replaces its live parts. Without this script, the page reads itself again.
"use strict";
const PERIOD = 5000;
async function refresh() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { headers: { "x-live": "1" }, redirect: "error" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const next = page.getElementById(part.id);
        if (answer.ok && next && !part.contains(document.activeElement)) part.replaceWith(next);
      }
      document.body.classList.remove("stale");
    } catch {
      document.body.classList.add("stale");
    }
  }
  setTimeout(refresh, PERIOD);
}
if (document.querySelector("[data-live]")) setTimeout(refresh, PERIOD);
