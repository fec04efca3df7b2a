/** For the tests of programs that use Duetime. */

export { FakeClient } from './fake.js'
export type { Ended } from './fake.js'
export { startServer, TestServer } from './server.js'
