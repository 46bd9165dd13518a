import { fileURLToPath } from "node:url";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";
import { databaseUrl, drainAll, enqueueAll, handover, main, payload, pickup, workWhenTold } from "./common.mjs";

const knob = (name, fallback) => Number(process.env[name] ?? fallback);
const PROCESSES = knob("GW_PROCESSES", 2);
const CONCURRENCY = knob("GW_CONCURRENCY", 24);
const LANES = knob("GW_LANES", 2);
const BATCH = knob("GW_BATCH", 1000);

const logger = new Logger(() => () => {});
const base = { connectionString: databaseUrl, logger };

// The batching the project uses in its own performance test.
const batching = {
  localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

const startWorker = (handler, worker) =>
  run({
    preset: { worker: { ...base, concurrentJobs: CONCURRENCY, maxPoolSize: CONCURRENCY + 1, ...worker } },
    taskList: { noop: handler },
    noHandleSignals: true,
  });

async function enqueue(jobs) {
  const utils = await makeWorkerUtils({ ...base, maxPoolSize: LANES });
  const result = await enqueueAll(jobs, {
    batch: BATCH,
    lanes: LANES,
    spec: (n) => ({ identifier: "noop", payload: payload(n) }),
    insert: (specs) => utils.addJobs(specs),
  });
  await utils.release();
  return result;
}

async function drain(jobs) {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const sql = "select exists (select from graphile_worker.jobs) as left";
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
    const runner = await startWorker(async () => count(1), batching);
    return () => runner.stop();
  });

// Without the local queue: it trades latency for throughput.
async function pickupPhase(samples) {
  const arrival = handover();
  const runner = await startWorker(async () => arrival.arrived(), process.env.GW_LQ ? batching : {});
  const result = await pickup(samples, 20, async (body) => {
    const began = arrival.next();
    await runner.addJob("noop", body);
    return began;
  });
  await runner.stop();
  return result;
}

await main({ setup: () => runMigrations(base), enqueue, drain, work, pickup: pickupPhase });
