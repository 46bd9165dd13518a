import { fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

const PAYLOAD_BYTES = 200;

export const databaseUrl = process.env.DATABASE_URL;

export function payload(n) {
  const bare = JSON.stringify({ n, pad: "" }).length;
  return { n, pad: "x".repeat(PAYLOAD_BYTES - bare) };
}

const rate = (jobs, started) => jobs / ((performance.now() - started) / 1000);

// `lanes` inserts are in flight at any time; the specs are built before the clock starts, so only the peer's own work is timed.
export async function enqueueAll(jobs, { batch, lanes, spec, insert }) {
  const batches = [];
  for (let at = 0; at < jobs; at += batch) {
    const size = Math.min(batch, jobs - at);
    batches.push(Array.from({ length: size }, (_, i) => spec(at + i)));
  }
  const started = performance.now();
  const lane = async () => {
    for (let next = batches.pop(); next; next = batches.pop()) await insert(next);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return { enqueue_per_s: rate(jobs, started) };
}

const heard = (child, word) =>
  new Promise((resolve, reject) => {
    child.on("message", (message) => message === word && resolve());
    child.once("exit", (code) => reject(new Error(`worker process ended early with ${code}`)));
  });

// The clock runs from "start the workers" until the database itself holds no unfinished job: completions are batched, so the
// last handler call comes earlier than the last job is durably done.
export async function drainAll(jobs, { script, processes, unfinished }) {
  const children = Array.from({ length: processes }, () => fork(script, ["work"]));
  const counts = new Map();
  for (const child of children) {
    child.on("message", (message) => message.ran && counts.set(child, message.ran));
  }
  await Promise.all(children.map((child) => heard(child, "loaded")));

  const started = performance.now();
  for (const child of children) child.send("go");
  const ran = () => [...counts.values()].reduce((sum, n) => sum + n, 0);
  while (ran() < jobs) await sleep(5);
  while (await unfinished()) await sleep(2);
  const result = { drain_per_s: rate(jobs, started) };

  const ended = children.map((child) => new Promise((resolve) => child.once("exit", resolve)));
  for (const child of children) child.send("stop");
  await Promise.all(ended);
  return { ...result, ran: ran() };
}

// Runs inside a forked worker process; `start(count)` starts the peer's worker and returns how to stop it.
export async function workWhenTold(start) {
  let ran = 0;
  let told = 0;
  const report = setInterval(() => {
    if (ran !== told) process.send({ ran: (told = ran) });
  }, 5);
  const message = (word) => new Promise((resolve) => process.on("message", (m) => m === word && resolve()));
  const stopped = message("stop");
  const go = message("go");
  process.send("loaded");
  await go;
  const stop = await start((jobs) => (ran += jobs));
  await stopped;
  clearInterval(report);
  if (ran !== told) process.send({ ran });
  await stop();
  process.exit(0);
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];

// One job at a time, each only after the last one ended and the worker had time to go idle again.
export async function pickup(samples, warmUp, submit) {
  const times = [];
  for (let i = 0; i < samples + warmUp; i++) {
    await sleep(15 + Math.random() * 10);
    const started = performance.now();
    const began = await submit(payload(i));
    if (i >= warmUp) times.push(began - started);
  }
  times.sort((a, b) => a - b);
  return { pickup_p50_ms: quantile(times, 0.5), pickup_p95_ms: quantile(times, 0.95) };
}

// Hands the moment of the handler's first line to the `submit` that is waiting for it.
export function handover() {
  let resolve;
  return {
    next: () => new Promise((r) => (resolve = r)),
    arrived: () => resolve(performance.now()),
  };
}

export async function main(phases) {
  const [phase, count] = process.argv.slice(2);
  const result = await phases[phase](Number(count));
  console.log(JSON.stringify(result ?? {}));
  process.exit(0);
}
