import { fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

const PAYLOAD_BYTES = 200;

export const databaseUrl = process.env.DATABASE_URL;

export function payload(n) {
  const bare = JSON.stringify({ n, pad: "" }).length;
  return { n, pad: "x".repeat(PAYLOAD_BYTES - bare) };
}

const rate = (jobs, started) => jobs / ((performance.now() - started) / 1000);

// `lanes` inserts are in flight at any time; the specs are built before the clock starts, so only the
// peer's own work is timed.
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
  new Promise((resolve) => child.on("message", (message) => message === word && resolve()));

function forkWorkers(script, processes) {
  const children = Array.from({ length: processes }, () => fork(script, ["work"]));
  let stopping = false;
  for (const child of children) {
    child.ran = 0;
    child.on("message", (message) => (child.ran = message.ran ?? child.ran));
    child.ended = new Promise((resolve) => child.once("exit", resolve));
    child.ended.then((code) => {
      if (stopping) return;
      console.error(`a worker process ended early with ${code}`);
      process.exit(1);
    });
  }
  const tell = (word) => children.forEach((child) => child.send(word));
  return {
    loaded: Promise.all(children.map((child) => heard(child, "loaded"))),
    go: () => tell("go"),
    ran: () => children.reduce((sum, child) => sum + child.ran, 0),
    async stop() {
      stopping = true;
      tell("stop");
      await Promise.all(children.map((child) => child.ended));
    },
  };
}

// The clock runs from "start the workers" until the database itself holds no unfinished job: completions are
// batched, so the last handler call comes earlier than the last job is durably done.
export async function drainAll(jobs, { script, processes, unfinishedSql }) {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const unfinished = async () => (await client.query(`select exists (${unfinishedSql}) as yes`)).rows[0].yes;

  const workers = forkWorkers(script, processes);
  await workers.loaded;
  const started = performance.now();
  workers.go();
  while (workers.ran() < jobs) await sleep(5);
  while (await unfinished()) await sleep(2);
  const drain_per_s = rate(jobs, started);
  await workers.stop();
  await client.end();
  return { drain_per_s, ran: workers.ran() };
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
  process.on("disconnect", () => process.exit(1));
  process.send("loaded");
  await go;
  const stop = await start((jobs) => (ran += jobs));
  await stopped;
  clearInterval(report);
  if (ran !== told) process.send({ ran });
  await stop();
  process.exit(0);
}

const WARM_UP = 20;

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];

// One job at a time, each only after the last one ended and the worker had time to go idle again.
export async function pickup(samples, submit) {
  const times = [];
  for (let i = 0; i < samples + WARM_UP; i++) {
    await sleep(15 + Math.random() * 10);
    const started = performance.now();
    const began = await submit(payload(i));
    if (i >= WARM_UP) times.push(began - started);
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
