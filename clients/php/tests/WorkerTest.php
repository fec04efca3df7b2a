<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\{Bytes, Cancelled, Client, Fatal, Job, Json, Keeper, NewJob, Park, RawJson, Release, RetryAfter, RunningJob, Worker};
use Duetime\Error\{Invalid, Unauthorized, Unavailable};
use PHPUnit\Framework\TestCase;

/** Against a real server. */
final class WorkerTest extends TestCase
{
    private Client $client;
    private string $queue;

    protected function setUp(): void
    {
        $this->client = Site::client();
        $this->queue = Site::queue();
    }

    private function worker(mixed ...$options): Worker
    {
        return new Worker($this->client, $this->queue, ...$options + ['logger' => new Quiet()]);
    }

    /** Runs one job with this handler, and returns it afterwards. */
    private function ran(callable $handler, mixed $payload = null, mixed ...$options): Job
    {
        $id = $this->client->push($this->queue, $payload, maxAttempts: 2)->id;
        self::assertSame(1, $this->worker(...$options + ['maxJobs' => 1])->handle('*', $handler)->drain());
        return $this->client->get($id);
    }

    public function testResults(): void
    {
        $job = $this->ran(static fn (RunningJob $job): array => ['twice' => $job->payload * 2, 'attempt' => $job->attempt], 21);
        self::assertSame(['succeeded', ['twice' => 42, 'attempt' => 1]], [$job->state, $job->result]);
        self::assertNull($this->ran(static fn () => null)->exactResult());
        $exact = $this->ran(static fn () => new RawJson('{"n":12345678901234567890}'))->exactResult();
        self::assertInstanceOf(RawJson::class, $exact);
        self::assertSame('{"n":12345678901234567890}', $exact->text);
        $bytes = $this->ran(static fn () => new Bytes("\xff"));
        self::assertSame(["\xff", "\xff"], [$bytes->result, $bytes->resultText()]);
        self::assertSame('[-0, 1E400]', $this->ran(static fn (RunningJob $job) => $job->exact(), new RawJson('[-0, 1E400]'))->resultText());
    }

    public function testJobsThatFollow(): void
    {
        foreach ([true, false] as $succeeds) {
            $this->ran(function (RunningJob $job) use ($succeeds): int {
                $job->followWith(new NewJob("{$this->queue}-next", ['after' => $job->payload]));
                return $succeeds ? 7 : throw new Fatal('no');
            }, 1);
        }
        $next = iterator_to_array($this->client->jobs(queue: "{$this->queue}-next"), false);
        self::assertSame([['after' => 1]], array_column($next, 'payload'));
        self::assertSame(7, $next[0]->previous['result'] ?? null);
    }

    /** @dataProvider failures */
    public function testFailures(\Throwable $thrown, string $state, ?string $message, int $attempt, int $priority = 1024): void
    {
        $job = $this->ran(static fn () => throw $thrown);
        self::assertSame([$state, $attempt, $priority], [$job->state, $job->attempt, $job->fields['priority']]);
        self::assertSame($message, $message === null ? $job->errors[0]['message'] ?? null : substr($job->errors[0]['message'], 0, \strlen($message)));
        self::assertSame($thrown instanceof Park && $priority === 7 ? 'check it' : ($job->errors[0]['message'] ?? null), $job->fields['message'] ?? null);
    }

    /** @return array<string, array{0: \Throwable, 1: string, 2: string|null, 3: int, 4?: int}> */
    public static function failures(): array
    {
        return [
            'any' => [new \DomainException('no route'), 'scheduled', 'no route', 1],
            'an error' => [new \TypeError('wrong'), 'scheduled', 'wrong', 1],
            'without words' => [new \LogicException(), 'scheduled', 'LogicException', 1],
            'not UTF-8' => [new \RuntimeException("\xd6\xd0"), 'scheduled', "\u{fffd}\u{fffd}", 1],
            'final' => [new Fatal('never'), 'failed', 'never', 1],
            'later' => [new RetryAfter('1h', 'busy'), 'scheduled', 'busy', 1],
            'released' => [new Release('1h', priority: 9), 'scheduled', null, 0, 9],
            'parked' => [new Park('check it', priority: 7), 'failed', null, 1, 7],
            'a delay that is none' => [new Release(-1), 'scheduled', 'released (`delay` must be a duration of 0 or more seconds, got -1)', 1],
            'a text that is none' => [new RetryAfter('soon', 'busy'), 'scheduled', 'the outcome (fail) was refused: `fail.retry_after` must be', 1],
            'a priority that is none' => [new Park('by hand', priority: -1), 'scheduled', 'the outcome (park) was refused: `park.priority` must be', 1],
        ];
    }

    public function testARefusedResultFailsForGood(): void
    {
        foreach ([static fn () => "\xff", static fn () => NAN, static fn () => str_repeat('x', 2 << 20)] as $handler) {
            $job = $this->ran($handler);
            self::assertSame('failed', $job->state);
            self::assertStringStartsWith('the result was refused: ', $job->errors[0]['message']);
        }
        $job = $this->ran(static fn () => str_repeat('x', 5 << 20));
        self::assertSame(['failed', 'the result was refused: it was not sent: expected at most 1 MiB, got 5242893 bytes'], [$job->state, $job->errors[0]['message']]);
    }

    public function testAPayloadThatDoesNotFitFailsForGood(): void
    {
        foreach ([['order' => 'x'] , [], ['order' => 1, 'other' => 2], 'text'] as $payload) {
            $job = $this->ran(static fn (RunningJob $job) => $job->as(Order::class), $payload);
            self::assertSame('failed', $job->state);
        }
        self::assertStringContainsString('object', $job->errors[0]['message']);
        $job = $this->ran(static fn (RunningJob $job) => $job->as(Order::class), ['order' => 'x']);
        self::assertStringContainsString('`order`', $job->errors[0]['message']);
        $job = $this->ran(static fn (RunningJob $job) => $job->as(Order::class)->order, ['order' => 4711]);
        self::assertSame(4711, $job->result);
    }

    public function testAKeeperThatWasKilledIsReplaced(): void
    {
        $keeper = new Keeper($this->client->transport);
        foreach (['first', 'second'] as $name) {
            $keeper->launch();
            $children = array_map('intval', explode(' ', trim((string) file_get_contents('/proc/self/task/' . getmypid() . '/children'))));
            $this->client->push($this->queue, $name);
            $receipt = $this->client->transport->call('POST', '/v1/reserve', Json::object(['queues' => [$this->queue]]))->fields['leases'][0]['receipt'];
            posix_kill(max($children), SIGKILL);
            // A pipe breaks once the kernel has ended the process.
            while (is_dir('/proc/' . max($children)) && !str_contains((string) @file_get_contents('/proc/' . max($children) . '/stat'), ') Z ')) {
            }
            $name === 'first' ? $keeper->holdLease($receipt, '60s') : null;
            $keeper->settle($receipt, 'complete', ['result' => $name]);
            self::assertSame([], $keeper->sync());
        }
        // The newest end comes first.
        self::assertSame(['second', 'first'], array_map(static fn (Job $job): mixed => $job->result, [...$this->client->jobs(queue: $this->queue)]));
    }

    public function testACancelReachesTheHandler(): void
    {
        $id = $this->client->push($this->queue)->id;
        $seen = null;
        $worker = $this->worker(lease: '1s', timeLimit: 60)->handle('*', function (RunningJob $job) use (&$seen): void {
            self::assertSame('cancel_requested', $this->client->cancel($job->id)->value);
            while (true) {
                try {
                    $job->stopIfCancelled();
                } catch (Cancelled $seen) {
                    throw $seen;
                }
                // It blocks until the next look, as a handler does.
                usleep(20_000);
            }
        });
        self::assertSame(1, $worker->drain());
        self::assertInstanceOf(Cancelled::class, $seen);
        self::assertSame('cancelled', $this->client->get($id)->state);
    }

    public function testProgressIsShown(): void
    {
        $job = $this->ran(function (RunningJob $job): void {
            $job->progress(40, 'half of it');
            self::assertSame(40, $this->client->get($job->id)->progress['percent'] ?? null);
            $this->client->cancel($job->id);
            $job->progress(50);
            self::assertTrue($job->cancelled(), 'the answer to the progress says so');
        });
        self::assertSame('succeeded', $job->state, 'it was completed anyway');
    }

    public function testALostLeaseDropsTheOutcome(): void
    {
        $log = new Quiet();
        $job = $this->ran(function (RunningJob $job): string {
            $this->client->transport->call('POST', "/v1/leases/{$job->receipt}/fail", '{"message":"by another","final":true}');
            return 'late';
        }, logger: $log);
        self::assertSame(['failed', null], [$job->state, $job->result]);
        self::assertStringContainsString('lease was lost', implode("\n", $log->lines));
    }

    public function testALeaseOutlivesItsKeeper(): void
    {
        $kills = static function (): int {
            $children = explode(' ', trim((string) file_get_contents('/proc/self/task/' . getmypid() . '/children')));
            $keepers = array_filter($children, static fn (string $pid): bool
                => str_contains((string) file_get_contents("/proc/$pid/cmdline"), 'keeper-process.php'));
            return \count(array_filter($keepers, static fn (string $pid): bool => posix_kill((int) $pid, SIGKILL)));
        };
        $job = $this->ran(static function (RunningJob $job) use ($kills): array {
            $killed = $kills() > 0;
            // Longer than the lease. What asks for a cancel notices that nobody extends.
            for ($until = hrtime(true) + 4_500_000_000; hrtime(true) < $until; usleep(10_000)) {
                self::assertFalse($job->cancelled());
            }
            // The outcome is reported without one, too.
            return [$killed, $kills() > 0];
        }, lease: '2s');
        self::assertSame(['succeeded', [true, true], 1, 0], [$job->state, $job->result, $job->attempt, $job->fields['crashes']]);
    }

    public function testAroundAndKinds(): void
    {
        $this->client->push($this->queue, 1, kind: 'known');
        $unknown = $this->client->push($this->queue, 1, kind: 'unknown')->id;
        $calls = [];
        $note = static function (string $name) use (&$calls): \Closure {
            return static function (RunningJob $job, \Closure $next) use ($name, &$calls): mixed {
                $calls[] = "$name before";
                $result = $next($job);
                $calls[] = "$name after";
                return $result;
            };
        };
        $worker = $this->worker()->around($note('outer'))->around($note('inner'))->handle('known', static function () use (&$calls): void {
            $calls[] = 'handler';
        });
        self::assertSame(2, $worker->drain());
        self::assertSame(['outer before', 'inner before', 'handler', 'inner after', 'outer after'], $calls);
        $job = $this->client->get($unknown);
        self::assertSame(['scheduled', 0], [$job->state, $job->attempt], 'given back for another worker');
    }

    public function testQueuesInOrderAndByWeight(): void
    {
        $other = Site::queue();
        foreach (range(1, 200) as $n) {
            $this->client->push($this->queue, $n);
            $this->client->push($other, $n);
        }
        $served = [];
        $handler = static function (RunningJob $job) use (&$served): void {
            $served[] = $job->queue;
        };
        (new Worker($this->client, [$other, $this->queue], maxJobs: 10))->handle('*', $handler)->drain();
        self::assertSame(array_fill(0, 10, $other), $served);
        $served = [];
        (new Worker($this->client, [$other => 9, $this->queue => 1], maxJobs: 100))->handle('*', $handler)->drain();
        // One of ten: 10 ± 3 is one standard deviation; these bounds are nine.
        $share = array_count_values($served)[$this->queue] ?? 0;
        self::assertTrue($share >= 1 && $share <= 37, "the share of weight 1 is $share of 100");
        $this->expectException(Invalid::class);
        new Worker($this->client, [$other => 0]);
    }

    public function testLimits(): void
    {
        foreach (range(1, 5) as $n) {
            $this->client->push($this->queue, $n);
        }
        $handle = static fn () => null;
        self::assertSame(2, $this->worker(maxJobs: 2)->handle('*', $handle)->run());
        self::assertSame(1, $this->worker(memoryLimit: 1)->handle('*', $handle)->run(), 'it has more than 1 MiB after any job');
        self::assertSame(0, $this->worker(maxSeconds: 0.0)->handle('*', $handle)->run());
        $worker = $this->worker();
        $worker->handle('*', static fn () => $worker->stop());
        self::assertSame(1, $worker->run());
        self::assertSame(['state' => 'stopping', 'job' => null, 'jobs' => 1], $worker->health());
    }

    public function testTheServerKnowsItsWorkers(): void
    {
        $this->worker(name: "mailer-{$this->queue}")->drain();
        $workers = $this->client->transport->call('GET', '/v1/workers?limit=1000')->fields['workers'];
        self::assertContains("mailer-{$this->queue}", array_column($workers, 'worker'));
    }

    public function testAWorkerWaitsForTheServer(): void
    {
        $log = new Quiet();
        $lost = new Unavailable('unreachable', 0, 'refused');
        $none = ScriptedHttp::ok(['leases' => [], 'next_due_at' => null]);
        $odd = ScriptedHttp::ok(['leases' => ['a' => 7]]);
        $http = new ScriptedHttp([$lost, $lost, $none, ScriptedHttp::problem(401, 'unauthorized'), $odd, $none, ScriptedHttp::problem(400, 'invalid')]);
        try {
            (new Worker(new Client('http://one', '', http: $http), 'q', logger: $log))->run();
            self::fail('a refused request is not waited for');
        } catch (Invalid) {
            self::assertCount(5, $log->lines, implode("\n", $log->lines));
            self::assertSame($http->sent[0]['body']['request_id'], $http->sent[2]['body']['request_id'], 'a repeat gets the same jobs');
            self::assertSame(['20000ms', '0ms'], [$http->sent[0]['body']['wait'], $http->sent[2]['body']['wait']], 'and does not wait for others');
            self::assertNotSame($http->sent[2]['body']['request_id'], $http->sent[3]['body']['request_id']);
        }
        // A token that is wrong from the start is for the developer.
        $this->expectException(Unauthorized::class);
        (new Worker(new Client('http://one', '', http: new ScriptedHttp([ScriptedHttp::problem(401, 'unauthorized')])), 'q', logger: $log))->run();
    }

    public function testAStopWithoutAServer(): void
    {
        $server = \Duetime\Testing\Server::start(arguments: Site::MEMORY);
        $server->client()->push($this->queue, 'overdue');
        $environment = ['DUETIME_SERVER' => $server->address, 'PATH' => getenv('PATH')];
        $process = proc_open([PHP_BINARY, __DIR__ . '/process.php', $this->queue], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes, null, $environment);
        self::assertIsResource($process);
        self::assertSame("running\n", fgets($pipes[1]));
        $server->stop();
        posix_kill(proc_get_status($process)['pid'], SIGTERM);
        stream_get_contents($pipes[1]);
        self::assertStringContainsString('runs again once its lease ends', (string) stream_get_contents($pipes[2]));
        self::assertSame(0, proc_close($process), 'it has the time to end by itself');
    }

    public function testProcesses(): void
    {
        foreach (['term' => 'finishes', 'overdue' => 'released', 'twice' => 'released', 'exit' => 'failed', 'memory' => 'failed', 'limit' => 'failed',
            'forks' => 'finishes', 'returns' => 'finishes'] as $case => $how) {
            $this->queue = Site::queue();
            $id = $this->client->push($this->queue, $case, maxAttempts: 1)->id;
            $script = __DIR__ . '/process.php';
            $environment = ['DUETIME_SERVER' => Site::server()->address, 'PATH' => getenv('PATH')];
            $process = proc_open([PHP_BINARY, $script, $this->queue], [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes, null, $environment);
            self::assertIsResource($process);
            // The handler says when it runs, and the signals are sent then.
            self::assertSame("running\n", fgets($pipes[1]), $case);
            $pid = proc_get_status($process)['pid'];
            if (\in_array($case, ['term', 'overdue', 'twice'], true)) {
                posix_kill($pid, SIGTERM);
            }
            if ($case === 'twice') {
                self::assertSame("stopping\n", fgets($pipes[1]));
                posix_kill($pid, SIGTERM);
            }
            stream_get_contents($pipes[1]);
            $said = (string) stream_get_contents($pipes[2]);
            $words = ['term' => 'stopped after 1 jobs', 'overdue' => 'is given back', 'twice' => 'is given back', 'exit' => 'ended the process',
                'memory' => 'Allowed memory size', 'limit' => 'time limit of 0.3 s', 'forks' => 'stopped', 'returns' => 'has forked returned'][$case];
            self::assertStringContainsString($words, $said, 'no worker ends without a word');
            $job = $this->client->get($id);
            match ($how) {
                'finishes' => self::assertSame(['succeeded', 'done'], [$job->state, $job->result], $case),
                'released' => self::assertSame(['ready', 0], [$job->state, $job->attempt], $case),
                'failed' => self::assertSame('failed', $job->state, $case),
            };
            if ($how === 'failed') {
                $words = ['exit' => 'ended the process', 'memory' => 'Allowed memory size', 'limit' => 'time limit of 0.3 s'][$case];
                self::assertStringContainsString($words, $job->errors[0]['message'], $case);
            }
            $code = proc_close($process);
            self::assertSame($case === 'limit' ? SIGKILL : ($how === 'failed' ? [3, 255][(int) ($case === 'memory')] : 0), $code, $case);
        }
    }
}

final class Order
{
    public function __construct(public readonly int $order)
    {
    }
}
