// Reads this page again, and replaces its live parts. Without this script, the page reads itself again.
"use strict";
const PERIOD = 5000;
async function refresh() {
  if (!document.hidden) {
    let is_stale = true;
    try {
      const answer = await fetch(location.href, { headers: { "x-live": "1" }, redirect: "manual" });
      // The session is over: the page of the server says so.
      if (answer.type === "opaqueredirect" || answer.status === 403) return location.reload();
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const parts = [...document.querySelectorAll("[data-live]")].map((part) => [part, page.getElementById(part.id)]);
      // Another page is there now, for example that of a rule that was deleted.
      if (answer.ok && parts.some(([, next]) => !next)) return location.reload();
      is_stale = !answer.ok;
      for (const [part, next] of is_stale ? [] : parts) {
        const focused = part.contains(document.activeElement) ? name(document.activeElement) : null;
        part.replaceWith(next);
        const again = [...next.querySelectorAll("a, [tabindex]")].find((element) => focused && name(element) === focused);
        again?.focus({ preventScroll: true });
      }
    } catch {
      // The server does not answer.
    }
    document.body.classList.toggle("stale", is_stale);
  }
  setTimeout(refresh, PERIOD);
}
const name = (element) => element.getAttribute("href") ?? element.getAttribute("aria-label");
if (document.querySelector("[data-live]")) setTimeout(refresh, PERIOD);
