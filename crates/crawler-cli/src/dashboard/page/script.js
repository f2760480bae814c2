"use strict";

new EventSource("events").addEventListener("status", (event) => {
  document.getElementById("status").textContent = JSON.stringify(JSON.parse(event.data), null, 2);
});
