// An unpaid order in NestJS: the client is a provider, and the worker starts and stops with the application.

import 'reflect-metadata'
import { type BeforeApplicationShutdown, Controller, Get, HttpCode, Injectable, Module, type OnApplicationBootstrap, Param, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Client, Worker } from 'duetime'

@Injectable()
export class Orders {
  readonly #states = new Map<string, string>()

  constructor(private readonly client: Client) {}

  async place(order: string): Promise<{ order: string; cancelledAt: Date }> {
    this.#states.set(order, 'open')
    // The key finds the job again, and the origin makes a second request for the same order harmless.
    const options = { kind: 'order.cancel', key: `order-${order}`, origin: `placed-${order}`, delay: process.env['PAY_WITHIN'] ?? '30m' }
    const job = await this.client.push('orders', { order }, options)
    return { order, cancelledAt: job.dueAt }
  }

  async pay(order: string): Promise<string> {
    if ((await this.client.cancelByKey('orders', `order-${order}`)) === 'cancelled') this.#states.set(order, 'paid')
    return this.state(order)
  }

  cancel(order: string): void {
    if (this.state(order) === 'open') this.#states.set(order, 'cancelled')
  }

  state(order: string): string {
    return this.#states.get(order) ?? 'unknown'
  }
}

@Controller('orders/:id')
export class OrdersController {
  constructor(private readonly orders: Orders) {}

  @Post()
  place(@Param('id') id: string): Promise<{ order: string; cancelledAt: Date }> {
    return this.orders.place(id)
  }

  @Post('payment')
  @HttpCode(200)
  async pay(@Param('id') id: string): Promise<{ order: string; state: string }> {
    return { order: id, state: await this.orders.pay(id) }
  }

  @Get()
  get(@Param('id') id: string): { order: string; state: string } {
    return { order: id, state: this.orders.state(id) }
  }
}

/** Works for as long as the application runs. Nest gets the signals, so the worker leaves them alone. */
@Injectable()
export class OrderWorker implements OnApplicationBootstrap, BeforeApplicationShutdown {
  readonly #worker: Worker
  #running: Promise<void> | undefined

  constructor(client: Client, orders: Orders) {
    this.#worker = new Worker(client, { queues: 'orders', concurrency: 10 })
    this.#worker.handle<{ order: string }>('order.cancel', (job) => {
      orders.cancel(job.payload.order)
    })
  }

  onApplicationBootstrap(): void {
    this.#running = this.#worker.run({ signals: false })
    // The server refuses this worker: wrong token or queue.
    this.#running.catch((error: unknown) => {
      console.error(error)
      process.exit(1)
    })
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.#worker.stop()
    await this.#running
  }
}

@Module({
  controllers: [OrdersController],
  providers: [{ provide: Client, useFactory: () => new Client() }, Orders, OrderWorker],
})
export class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] })
// SIGTERM ends the worker before the application.
app.enableShutdownHooks()
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1')
console.log(await app.getUrl())
