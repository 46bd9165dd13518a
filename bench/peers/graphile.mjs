import { fileURLToPath } from "node:url";
import { databaseUrl, drainAll, enqueueAll, handover, main, payload, pickup, workWhenTold } from "./peer.mjs";

// Two releases are compared with the same harness, so the package is named from outside.
const { Logger, makeWorkerUtils, run, runMigrations } = await import(process.env.GRAPHILE_PACKAGE ?? "graphile-worker");

// Processes, jobs per process and batching are those of the project's own performance test.
const PROCESSES = 4;
const CONCURRENCY = 24;
const LANES = 4;
const BATCH = 1000;

const logger = new Logger(() => () => {});
const base = { connectionString: databaseUrl, logger };

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

const drain = (jobs) =>
  drainAll(jobs, {
    script: fileURLToPath(import.meta.url),
    processes: PROCESSES,
    unfinishedSql: "select from graphile_worker.jobs",
  });

const work = () =>
  workWhenTold(async (count) => {
    const runner = await startWorker(async () => count(1), batching);
    return () => runner.stop();
  });

// Without the local queue: it trades latency for throughput.
async function pickupPhase(samples) {
  const arrival = handover();
  const runner = await startWorker(async () => arrival.arrived(), {});
  const result = await pickup(samples, async (body) => {
    const began = arrival.next();
    await runner.addJob("noop", body);
    return began;
  });
  await runner.stop();
  return result;
}

await main({ setup: () => runMigrations(base), enqueue, drain, work, pickup: pickupPhase });
