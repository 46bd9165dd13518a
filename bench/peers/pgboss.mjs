import { fileURLToPath } from "node:url";
import { PgBoss } from "pg-boss";
import { databaseUrl, drainAll, enqueueAll, handover, main, payload, pickup, workWhenTold } from "./peer.mjs";

// The fastest of the combinations tried on two cores: one process with two fetch loops beat two and four processes.
const PROCESSES = 1;
const CONCURRENCY = 2;
const FETCH = 2000;
const LANES = 2;
const BATCH = 5000;
const QUEUE = "noop";

// Maintenance and cron would only take time away from the queue.
async function boss(options = {}) {
  const instance = new PgBoss({ connectionString: databaseUrl, supervise: false, schedule: false, ...options });
  instance.on("error", (error) => console.error(error));
  return instance.start();
}

async function setup() {
  const instance = await boss();
  await instance.createQueue(QUEUE, { notify: true, partition: true });
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

const drain = (jobs) =>
  drainAll(jobs, {
    script: fileURLToPath(import.meta.url),
    processes: PROCESSES,
    unfinishedSql: `select from pgboss.job where name = '${QUEUE}' and state <> 'completed'`,
  });

const work = () =>
  workWhenTold(async (count) => {
    const instance = await boss({ max: CONCURRENCY + 1 });
    const options = {
      batchSize: FETCH,
      localConcurrency: CONCURRENCY,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
    };
    await instance.work(QUEUE, options, async (jobs) => void count(jobs.length));
    return () => instance.stop();
  });

async function pickupPhase(samples) {
  const instance = await boss({ useListenNotify: true });
  const arrival = handover();
  await instance.work(QUEUE, { pollingIntervalSeconds: 0.5 }, async () => arrival.arrived());
  const result = await pickup(samples, async (body) => {
    const began = arrival.next();
    await instance.send(QUEUE, body);
    return began;
  });
  await instance.stop();
  return result;
}

await main({ setup, enqueue, drain, work, pickup: pickupPhase });
