// A session of jackd with the server on the port that is given.
const assert = require('node:assert')
const Jackd = require(process.env.JACKD)

async function session() {
  const client = new Jackd()
  await client.connect({ host: '127.0.0.1', port: Number(process.argv[2]) })
  await client.use('mail')
  await client.watch('mail')
  await client.ignore('default')
  const id = await client.put({ to: 'Zoë' }, { priority: 7, delay: 0, ttr: 30 })
  assert.ok(Number.isSafeInteger(Number(id)), String(id))
  let job = await client.reserve()
  assert.strictEqual(String(job.id), String(id))
  assert.deepStrictEqual(JSON.parse(job.payload.toString()), { to: 'Zoë' })
  await client.touch(job.id)
  await client.release(job.id, { priority: 5, delay: 0 })
  job = await client.reserveWithTimeout(5)
  await client.bury(job.id, 3)
  assert.strictEqual(await client.kick(5), 1)
  job = await client.reserveWithTimeout(5)
  await client.delete(job.id)
  await assert.rejects(client.delete(job.id))
  const ids = await Promise.all([1, 2, 3, 4, 5].map((n) => client.put(String(n))))
  assert.strictEqual(new Set(ids.map(String)).size, 5)
  for (const expected of ['1', '2', '3', '4', '5']) {
    job = await client.reserve()
    assert.strictEqual(job.payload.toString(), expected)
    await client.delete(job.id)
  }
  await client.disconnect()
  console.log('all is well')
  process.exit(0)
}

session().catch((error) => {
  console.error(error)
  process.exit(1)
})
