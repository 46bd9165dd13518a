import { fileURLToPath } from "node:url";
import { PgBoss } from "pg-boss";
import pg from "pg";
import { databaseUrl, drainAll, enqueueAll, handover, main, payload, pickup, workWhenTold } from "./common.mjs";

const knob = (name, fallback) => Number(process.env[name] ?? fallback);
const PROCESSES = knob("PB_PROCESSES", 1);
const CONCURRENCY = knob("PB_CONCURRENCY", 4);
const FETCH = knob("PB_FETCH", 500);
const LANES = knob("PB_LANES", 2);
const BATCH = knob("PB_BATCH", 1000);
const QUEUE = "noop";

// Maintenance and cron would only take time away from the queue.
async function boss(options = {}) {
  const instance = new PgBoss({ connectionString: databaseUrl, supervise: false, schedule: false, ...options });
  instance.on("error", (error) => console.error(error));
  return instance.start();
}

async function setup() {
  const instance = await boss();
  await instance.createQueue(QUEUE, { notify: true });
  await instance.stop();
}

async function enqueue(jobs) {
  const instance = await boss({ max: LANES });
  return enqueueAll(jobs, {
    batch: BATCH,
    lanes: LANES,
    spec: (n) => ({ data: payload(n) }),
    insert: (specs) => instance.insert(QUEUE, specs),
  });
}

async function drain(jobs) {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const sql = `select exists (select from pgboss.job where name = '${QUEUE}' and state <> 'completed') as left`;
  const result = await drainAll(jobs, {
    script: fileURLToPath(import.meta.url),
    processes: PROCESSES,
    unfinished: async () => (await client.query(sql)).rows[0].left,
  });
  await client.end();
  return result;
}

const work = () =>
  workWhenTold(async (count) => {
    const instance = await boss({ max: CONCURRENCY + 1 });
    const options = { batchSize: FETCH, localConcurrency: CONCURRENCY, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    await instance.work(QUEUE, options, async (jobs) => { count(jobs.length); });
    return () => instance.stop();
  });

async function pickupPhase(samples) {
  const instance = await boss({ useListenNotify: true });
  const arrival = handover();
  await instance.work(QUEUE, { pollingIntervalSeconds: 0.5 }, async () => { arrival.arrived(); });
  const result = await pickup(samples, 20, async (body) => {
    const began = arrival.next();
    await instance.send(QUEUE, body);
    return began;
  });
  await instance.stop();
  return result;
}

await main({ setup, enqueue, drain, work, pickup: pickupPhase });
