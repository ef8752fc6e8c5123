// A worker runs the lab: the page stays quick while it works.
importScripts("wasm_exec.js");

onmessage = async ({ data: module }) => {
  try {
    const go = new Go();
    go.run(await WebAssembly.instantiate(module, go.importObject));
  } catch (e) {
    postMessage({ problem: `the lab does not start: ${e.message}` });
    return;
  }
  onmessage = ({ data }) => {
    const began = performance.now();
    const text = gabionLab(data.question);
    postMessage({ id: data.id, text, took: performance.now() - began });
  };
  postMessage({ ready: true });
};
