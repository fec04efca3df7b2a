// A producer and a worker of BullMQ or Bull. Arguments: the port of Redis, the library. Commands come line by line, and each is answered.
const path = process.env.LIBRARY
const [, , port, library] = process.argv
const connection = { host: '127.0.0.1', port: Number(port) }
const isBull = library === 'bull'
const modules = require(path)
const opened = new Map()
let count = 0

function queue(name) {
  if (!opened.has(name)) {
    opened.set(name, isBull ? new modules(name, { redis: connection }) : new modules.Queue(name, { connection }))
  }
  return opened.get(name)
}

const options = [
  () => ({}),
  (n) => ({ delay: 3600000 + n }),
  (n) => ({ delay: 1 + (n % 900) }),
  (n) => ({ priority: 1 + (n % 5) }),
  (n) => ({ jobId: `custom-${n}` }),
  (n) => ({ attempts: 4, backoff: { type: 'exponential', delay: 1000 + n } }),
  () => ({ lifo: true }),
  (n) => ({ delay: 500 + (n % 30) * 100, priority: n % 4, attempts: 2 }),
]

async function add(name, number, data, kinds) {
  for (let i = 0; i < number; i++) {
    const n = count++
    const kind = kinds[n % kinds.length]
    await queue(name).add('welcome', { n, text: 'Zoë', ...data }, { ...options[kind](n), removeOnComplete: true })
  }
}

const workers = []
// Of a worker whose death is soon noticed.
const short = { lockDuration: 2000, stalledInterval: 500, maxStalledCount: 1000 }
function work(name, settings = {}) {
  const run = async (job) => {
    if (Date.now() < job.timestamp + (job.opts.delay || 0)) console.log(`early ${job.data.n}`)
    if (job.data.fails && job.data.n % 10 === 9 && job.attemptsMade === 0) throw new Error('the first attempt')
    console.log(`ran ${name} ${job.data.n}`)
  }
  if (isBull) {
    const own = new modules(name, { redis: connection, settings })
    opened.set(`${name} of a worker`, own)
    own.process('*', 1, run)
  } else {
    workers.push(new modules.Worker(name, run, { connection, concurrency: 1, ...settings }))
  }
}

const commands = {
  add: (name, number) => add(name, Number(number), {}, [0, 1, 2, 3, 4, 5, 6]),
  // Delayed by seconds. Some fail once.
  delay: (name, number) => add(name, Number(number), { fails: true }, [7]),
  // Larger than Duetime is set to accept, with ids from 0 in each queue. None of them becomes due meanwhile.
  large: async (name, number) => {
    count = 0
    await add(name, Number(number), { filler: 'x'.repeat(150000) }, [0, 3, 4, 5, 6, 1, 0, 3])
  },
  pause: (name) => queue(name).pause(),
  resume: (name) => queue(name).resume(),
  // What others depend on.
  special: async (name) => {
    const later = { delay: 3600000 }
    const flow = new modules.FlowProducer({ connection })
    const child = { name: 'child', queueName: name, data: { n: -1 }, opts: later }
    await flow.add({ name: 'parent', queueName: name, data: { n: -2 }, children: [child] })
    await flow.close()
    await queue(name).upsertJobScheduler('tick', { every: 3600000 }, { name: 'tick', data: { n: -3 } })
    await queue(name).add('once', { n: -4 }, { ...later, deduplication: { id: 'once' } })
  },
  work: (name) => work(name),
  die: (name) => work(name, short),
  stop: async () => {
    await Promise.all(workers.map((worker) => worker.close()))
    for (const open of opened.values()) await open.close()
  },
}

async function converse() {
  const lines = require('node:readline').createInterface({ input: process.stdin })
  for await (const line of lines) {
    const [command, ...words] = line.split(' ')
    await commands[command](...words)
    console.log(`done ${line}`)
    if (command === 'stop') process.exit(0)
  }
}

converse().catch((error) => {
  console.error(error)
  process.exit(1)
})
