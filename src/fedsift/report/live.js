"use strict";
// Asks for the state of the job and puts changed parts in place, until the job has ended.
(() => {
  const shown = {};
  let failures = 0;

  function say(text) {
    const place = document.getElementById("connection");
    if (place.textContent !== text) place.textContent = text;
  }

  function put(name, content) {
    const place = document.getElementById(name);
    if (!place || shown[name] === content) return;
    shown[name] = content;
    const open = [...place.querySelectorAll("details")].map((one) => one.open);
    place.innerHTML = content;
    place.querySelectorAll("details").forEach((one, i) => {
      one.open = Boolean(open[i]);
    });
  }

  async function look() {
    try {
      const answer = await fetch("state", { cache: "no-store" });
      if (!answer.ok) throw new Error("refused");
      const state = await answer.json();
      for (const [name, content] of Object.entries(state.parts)) put(name, content);
      failures = 0;
      say(state.ended ? "The job has ended; this page stays as it is." : "");
      if (state.ended) return;
    } catch {
      failures += 1;
      if (failures > 3) {
        say("The job no longer answers; this page shows its last known state.");
        return;
      }
    }
    setTimeout(look, 700);
  }
  look();
})();
