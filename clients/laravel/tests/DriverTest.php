<?php

declare(strict_types=1);

namespace Duetime\Laravel\Tests;

use Duetime\{CancelOutcome, Client, Trace};
use Duetime\Error\{Invalid, Protocol};
use Duetime\Http\{Http, Response};
use Duetime\Laravel\{DuetimeJob, DuetimeQueue, Keyed};
use Duetime\Laravel\Facades\Duetime;
use Duetime\Testing\Server;
use Duetime\Laravel\Tests\App\{Application, FailsByDefault, Noted, Plain, Secret, Silent, Unique};
use Illuminate\Foundation\Application as Laravel;
use Illuminate\Support\Facades\{Cache, DB, Queue};

/** What the database driver does not have, and what the commands of Laravel do with this one. */
final class DriverTest extends Driver
{
    public function testAConnectionNeedsNoConfiguration(): void
    {
        $config = $this->app->make('config')->get('queue.connections.duetime');
        self::assertSame([60, $this->queue, false], [$config['lease'], $config['queue'], $config['after_commit']]);
        self::assertSame('duetime', $this->queue()->getConnectionName());
    }

    public function testTheServerKnowsTheJob(): void
    {
        Tagged::dispatch('tagged');
        $job = $this->only();
        self::assertSame([Tagged::class, ['order:7', 'shop'], 0], [$job->kind, $job->tags, $job->fields['max_attempts']]);
        self::assertSame(Tagged::class, $job->payload['displayName']);
        self::assertSame('1m', $job->fields['lease']);
    }

    public function testAHandlerRunsInTheTraceOfItsDispatch(): void
    {
        require_once __DIR__ . '/../../php/tests/OpenTelemetry.php';
        $trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
        Trace::within($trace, static fn (): mixed => Queue::push(new Traced()));
        self::assertSame($trace, $this->only()->trace);
        $this->artisan('queue:work', '--stop-when-empty', '--sleep=0');
        self::assertSame(["trace $trace", 'succeeded'], [self::effects()[1], $this->only()->state]);
        self::assertNull(Trace::current());
    }

    public function testDelaysAreKeptToTheMillisecond(): void
    {
        foreach ([[0.25, 250], [new \DateInterval('PT3S'), 3_000]] as [$delay, $expected]) {
            $before = microtime(true) * 1000;
            $due = (float) $this->client->get(Queue::later($delay, new Plain()))->dueAt->format('U.u') * 1000;
            $after = microtime(true) * 1000;
            self::assertTrue($before + $expected - 2 <= $due && $due <= $after + $expected + 2, "a delay of $expected ms: $before, $due, $after");
        }
        $at = now()->addMilliseconds(1_500);
        self::assertSame($at->format('U.v'), $this->client->get(Queue::later($at, new Plain()))->dueAt->format('U.v'));
    }

    public function testAMonthPassesAtOnce(): void
    {
        $server = Server::start();
        $this->app = Application::boot($this->folder, 'duetime', ['server' => $server->address] + Site::connection(queue: $this->queue));
        Plain::dispatch('in a month')->delay(now()->addDays(30));
        $work = fn (): string => $this->artisan('queue:work', '--stop-when-empty', '--sleep=0');
        $work();
        self::assertSame([], self::effects());
        $server->advance('30d');
        $work();
        self::assertSame(['attempt 1 on ' . $this->queue, 'done'], self::effects());
    }

    public function testAnEncryptedJobIsNotReadable(): void
    {
        Secret::dispatch('secret', 'a very secret word');
        self::assertStringNotContainsString('very secret', $this->only()->payloadText());
    }

    public function testAFailedJobIsADeadLetter(): void
    {
        FailsByDefault::dispatch('fails');
        $this->artisan('queue:work', '--stop-when-empty', '--sleep=0', '--tries=2');
        $job = $this->only();
        self::assertSame(['failed', 2], [$job->state, $job->attempt]);
        self::assertSame(array_fill(0, 2, 'DomainException: the tries of the worker'), array_column($job->errors, 'message'));
        self::assertSame(0, $this->queue()->size());

        // Laravel's own records work on: try it again, see it fail, forget it.
        $this->artisan('queue:retry', 'all');
        self::assertSame(1, $this->queue()->size());
        $this->artisan('queue:work', '--stop-when-empty', '--sleep=0');
        self::assertStringContainsString('FailsByDefault', $this->artisan('queue:failed'));
        $this->artisan('queue:prune-failed', '--hours=1');
        self::assertSame(1, DB::table('failed_jobs')->count(), 'it is not an hour old');
        DB::table('failed_jobs')->update(['failed_at' => '2020-01-01 00:00:00']);
        self::assertStringContainsString('1 entries deleted', $this->artisan('queue:prune-failed'));
    }

    public function testSizesClearAndMonitor(): void
    {
        Queue::bulk([new Plain(), new Plain()]);
        Plain::dispatch()->delay(60);
        $queue = $this->queue();
        $queue->pop();
        self::assertSame([3, 1, 1, 1], [$queue->size(), $queue->pendingSize(), $queue->delayedSize(), $queue->reservedSize()]);
        self::assertEqualsWithDelta(time(), $queue->creationTimeOfOldestPendingJob(), 5);
        self::assertStringContainsString($this->queue, $this->artisan('queue:monitor', "duetime:{$this->queue}"));
        self::assertStringContainsString('Cleared 2 jobs', $this->artisan('queue:clear', '--force'));
        self::assertSame([1, null], [$queue->size(), $queue->creationTimeOfOldestPendingJob()], 'the running job goes on');
        self::assertSame(0, $queue->size('unknown'));
    }

    public function testRefusedJobsOfABatchAreNotSilent(): void
    {
        $this->expectException(Invalid::class);
        Queue::bulk([new Plain(), new Plain()], '', 'not a name');
    }

    public function testCancelByKey(): void
    {
        foreach ([1, 2] as $time) {
            CancelOrder::dispatch(4711)->delay(1800);
        }
        self::assertSame(1, $this->queue()->size(), 'a key has one live job');
        self::assertSame(CancelOutcome::Cancelled, Duetime::cancel('order-4711'));
        self::assertSame(CancelOutcome::None, Duetime::cancel(new CancelOrder(4711)));
        self::assertSame('cancelled', $this->only()->state);
        Replaced::dispatch('old')->delay(60);
        Replaced::dispatch('new')->delay(60);
        self::assertSame(1, $this->queue()->size());
        self::assertStringContainsString('new', $this->client->find($this->queue, 'replaced')?->payload['data']['command']);
        self::assertSame(['cancelled' => 1], Duetime::cancelByTag('shop', $this->queue));
        $this->expectException(\InvalidArgumentException::class);
        Duetime::cancel(new Plain());
    }

    public function testACancelledUniqueJobCanBeDispatchedAgain(): void
    {
        Unique::dispatch('a')->delay(60);
        self::assertSame(CancelOutcome::Cancelled, Duetime::cancel(new Unique('a')));
        Unique::dispatch('a')->delay(60);
        self::assertSame(1, $this->queue()->size());
        // Another machine, whose cache knows nothing of it.
        Cache::flush();
        Unique::dispatch('a')->delay(60);
        self::assertSame(1, $this->queue()->size());
    }

    public function testAWorkerOfSeveralQueuesAsksOnce(): void
    {
        $low = $this->queue . '-low';
        Queue::pushOn($low, new Plain('low'));
        Queue::push(new Plain('high'));
        $queue = $this->queue();
        $names = [];
        for ($round = 0; $round < 3; $round++) {
            $queue->beginRound("{$this->queue},$low");
            $job = $queue->pop($this->queue);
            $names[] = $job?->getQueue();
            $job?->delete();
            if ($job === null) {
                self::assertNull($queue->pop($low), 'it was asked for before');
            }
        }
        self::assertSame([$this->queue, $low, null], $names);
        self::assertNull($queue->pop($low));
    }

    public function testWhatWasFetchedAndHasNotBegunIsGivenBack(): void
    {
        $this->app = Application::boot($this->folder, 'duetime', Site::connection(queue: $this->queue, prefetch: 10));
        Queue::bulk(array_fill(0, 40, new Plain()));
        $queue = $this->queue();
        [$ran, $fetched] = [[], 0];
        for ($n = 1; $n <= 40; $n++) {
            $queue->beginRound($this->queue, 2);
            $job = $queue->pop($this->queue);
            self::assertNotNull($job);
            $ran[] = $job->getJobId();
            self::assertSame(1, $job->attempts());
            if ($n % 7 === 5) {
                // Not each time: it makes a short job a long one.
                $fetched = max($fetched, (int) $this->client->queues->get($this->queue)['running']);
            }
            if ($n === 20) {
                // A slow one, with others behind it: they are free for other workers long before it ends.
                for ($until = microtime(true) + 5; $this->client->queues->get($this->queue)['running'] > 1 && microtime(true) < $until;) {
                }
                self::assertSame([1, 20], [$queue->reservedSize(), $queue->pendingSize()]);
            }
            $job->delete();
        }
        self::assertGreaterThan(1, $fetched, 'short jobs are fetched several at once');
        self::assertCount(40, array_unique($ran));
        self::assertSame([0, []], [$queue->size(), Silent::$reported]);
        self::assertSame(['succeeded' => 40], array_filter($this->client->queues->get($this->queue)['totals'], static fn (int $count, string $name): bool
            => $count > 0 && $name !== 'pushed', ARRAY_FILTER_USE_BOTH));
    }

    public function testNothingIsFetchedAheadInALastAttempt(): void
    {
        $this->app = Application::boot($this->folder, 'duetime', Site::connection(queue: $this->queue, prefetch: 10));
        $once = new Plain();
        $once->tries = 1;
        // By the worker, by the job, by the second attempt of two.
        foreach ([[new Plain(), 1, 1], [$once, 0, 1], [new Plain(), 2, 2]] as [$job, $tries, $attempt]) {
            Queue::bulk(array_fill(0, 12, $job));
            $queue = $this->queue();
            for ($n = 0; $n < 12 * $attempt; $n++) {
                $queue->beginRound($this->queue, $tries);
                $job = $queue->pop($this->queue);
                self::assertNotNull($job);
                if ($job->attempts() < $attempt) {
                    $job->release();
                    continue;
                }
                self::assertSame([$attempt, 1], [$job->attempts(), $queue->reservedSize()]);
                $job->delete();
            }
            self::assertSame(0, $queue->size());
        }
        // One that came along is given back, and its attempt does not count.
        Queue::bulk([...array_fill(0, 12, new Plain()), ...array_fill(0, 12, $once), ...array_fill(0, 12, new Plain())]);
        for ($n = 0; $n < 36; $n++) {
            $queue->beginRound($this->queue, 0);
            $job = $queue->pop($this->queue);
            self::assertSame(1, $job?->attempts());
            $job->delete();
        }
        self::assertSame(0, $queue->size());
    }

    public function testAnAwayServerIsReportedOnce(): void
    {
        $this->app = Application::boot($this->folder, 'duetime', ['server' => 'http://127.0.0.1:9', 'timeout' => 0.1, 'queue' => $this->queue]);
        self::assertNull(Queue::pop());
        self::assertNull(Queue::pop());
        self::assertCount(1, Silent::$reported);
        self::assertStringContainsString('unreachable', Silent::$reported[0]);
    }

    public function testAFetchWithoutAnAnswerIsRepeatedWordForWord(): void
    {
        $http = new class implements Http {
            /** @var list<string> */
            public array $bodies = [];

            public function send(string $method, string $url, array $headers, ?string $body, int $timeoutMs, ?\Closure $isAborted = null): Response
            {
                $this->bodies[] = (string) $body;
                return \count($this->bodies) === 1 ? throw new Protocol('protocol', 0, 'cut off') : new Response(200, [], '{"leases":[],"next_due_at":null}');
            }
        };
        $queue = new DuetimeQueue(new Client('http://one', '', http: $http), 'q', 60, 0);
        $queue->setContainer($this->app);
        self::assertNull($queue->pop());
        self::assertNull($queue->pop('other'));
        self::assertNull($queue->pop());
        self::assertNotSame($http->bodies[0], $http->bodies[1], 'another queue');
        $queue = new DuetimeQueue(new Client('http://one', '', http: $http), 'q', 60, 0);
        $http->bodies = [];
        $queue->setContainer($this->app);
        self::assertNull($queue->pop());
        self::assertNull($queue->pop());
        self::assertSame($http->bodies[0], $http->bodies[1]);
    }

    public function testALostLeaseIsReported(): void
    {
        Queue::push(new Plain());
        $job = $this->queue()->pop();
        self::assertInstanceOf(DuetimeJob::class, $job);
        $this->client->transport->call('POST', "/v1/leases/{$job->job->receipt}/complete");
        $job->release(5);
        $this->queue()->sync();
        self::assertStringContainsString('lease_lost', implode("\n", Silent::$reported));
    }

    public function testAnAdoptedJobCountsItsEarlierAttempts(): void
    {
        Queue::pushRaw((string) json_encode(['uuid' => '7d3c', 'displayName' => Plain::class, 'job' => 'x', 'data' => [], 'attempts' => 2]));
        self::assertSame(3, $this->queue()->pop()?->attempts());
    }
}

final class Traced extends Noted
{
    protected function act(): void
    {
        $this->note('trace ' . (string) Trace::current());
    }
}

final class Tagged extends Noted
{
    /** @return list<string> */
    public function tags(): array
    {
        return ['order:7', 'shop'];
    }
}

final class CancelOrder extends Noted implements Keyed
{
    public function __construct(public int $order)
    {
    }

    public function key(): string
    {
        return "order-{$this->order}";
    }
}

final class Replaced extends Noted implements Keyed
{
    public function key(): string
    {
        return 'replaced';
    }

    public function onKeyConflict(): string
    {
        return 'replace';
    }

    /** @return list<string> */
    public function tags(): array
    {
        return ['shop'];
    }
}
