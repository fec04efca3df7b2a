<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\{Bytes, CancelOutcome, Client, DuetimeError, Job, Lock, NewJob, Pushed, Queues, RawJson, Schedules};
use Duetime\Error\{Conflict, Invalid, LockHeld, LockLost, NotFound, Unavailable};
use PHPUnit\Framework\TestCase;

/** Against a real server. */
final class ClientTest extends TestCase
{
    public function testAnUnpaidOrder(): void
    {
        [$client, $queue] = [Site::client(), Site::queue()];
        $pushed = $client->push($queue, ['order' => 4711], kind: 'order.cancel', key: 'order-4711', delay: '30m', tags: ['shop:7']);
        self::assertSame(['created', 'scheduled', $queue], [$pushed->outcome, $pushed->state, $pushed->queue]);
        self::assertSame('kept', $client->push($queue, 1, key: 'order-4711')->outcome);
        $job = $client->find($queue, 'order-4711');
        self::assertNotNull($job);
        self::assertSame([$pushed->id, 'order.cancel', ['order' => 4711], ['shop:7']], [$job->id, $job->kind, $job->payload, $job->tags]);
        self::assertSame(CancelOutcome::Cancelled, $client->cancelByKey($queue, 'order-4711'));
        self::assertSame(CancelOutcome::None, $client->cancelByKey($queue, 'order-4711'));
        self::assertSame('cancelled', $client->get($pushed->id)->state);
        self::assertSame(CancelOutcome::AlreadyFinished, $client->cancel($pushed->id));
    }

    /** @dataProvider payloads */
    public function testPayloadsComeBackAsTheyWent(mixed $payload, mixed $decoded, string $raw): void
    {
        $client = Site::client();
        $job = $client->get($client->push(Site::queue(), $payload)->id);
        self::assertSame($decoded, $job->payload);
        self::assertSame($raw, $job->payloadText());
        $again = $client->get($client->push(Site::queue(), $job->exact())->id);
        self::assertSame($raw, $again->payloadText());
    }

    /** @return list<array{mixed, mixed, string}> */
    public static function payloads(): array
    {
        $deep = str_repeat('[', 600) . str_repeat(']', 600);
        return [
            [null, null, 'null'],
            [['a' => ['中', 1.0, []]], ['a' => ['中', 1.0, []]], '{"a":["中",1.0,[]]}'],
            [new RawJson('{"n": 123456789012345678901234567890, "e":{}}'), ['n' => '123456789012345678901234567890', 'e' => []],
                '{"n": 123456789012345678901234567890, "e":{}}'],
            [new RawJson('{"f": 0.1000000000000000055,"z":[-0],"t":1,"t":2}'), ['f' => 0.1, 'z' => [0], 't' => 2], '{"f": 0.1000000000000000055,"z":[-0],"t":1,"t":2}'],
            [new RawJson('[1e400]'), [INF], '[1e400]'],
            [PHP_INT_MAX, PHP_INT_MAX, '9223372036854775807'],
            [new Bytes("\x00\xff"), "\x00\xff", "\x00\xff"],
            [new RawJson('"\ud800"'), '"\ud800"', '"\ud800"'],
            [new RawJson($deep), $deep, $deep],
        ];
    }

    public function testAllOptionsArriveAtTheServer(): void
    {
        [$client, $queue] = [Site::client(), Site::queue()];
        $job = $client->get($client->push($queue, 1, kind: 'k', key: 'x', onConflict: 'reject', keyUntil: 'started', dueAt: '2030-01-01T00:00:00.250Z',
            tags: ['t'], priority: 3, retry: ['fixed' => ['delay' => '30s']], jitter: 0.5, maxAttempts: 4, maxAge: 3600, maxCrashes: 2, whenExhausted: ['move' => 'dead'],
            lease: 90, expires: '1h', origin: 'o' . $queue, trace: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
            meta: ['tenant_id' => '7', '8' => 'x'])->id);
        self::assertSame(['8' => 'x', 'tenant_id' => '7'], $job->meta);
        $expected = ['kind' => 'k', 'key' => 'x', 'key_until' => 'started', 'due_at' => '2030-01-01T00:00:00.250Z', 'tags' => ['t'], 'priority' => 3,
            'retry' => ['fixed' => ['delay' => '30s']], 'jitter' => 0.5, 'max_attempts' => 4, 'max_age' => '1h', 'max_crashes' => 2, 'when_exhausted' => ['move' => 'dead'],
            'lease' => '1m30s', 'expires' => '1h', 'origin' => 'o' . $queue, 'trace' => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'];
        self::assertSame([], array_udiff_assoc($expected, $job->fields, static fn ($a, $b): int => json_encode($a) <=> json_encode($b)));
        try {
            $client->push($queue, 1, key: 'x', onConflict: 'reject');
            self::fail('it is accepted');
        } catch (Conflict $error) {
            self::assertSame(['key_conflict', 409, $job->id], [$error->errorCode, $error->status, $error->holder]);
        }
    }

    public function testEveryOptionOfTheServerIsThere(): void
    {
        ['components' => ['schemas' => $schemas], 'paths' => $paths] = Site::client()->transport->call('GET', '/openapi.json')->fields;
        $theirs = static fn (string $schema): array => array_values(array_diff(array_keys($schemas[$schema]['properties']), ['payload_base64', 'delay_ms', 'due_at_ms']));
        $ours = static fn (string $class, string $method): array => array_map(
            static fn (\ReflectionParameter $one): string => strtolower((string) preg_replace('/[A-Z]/', '_$0', $one->getName())),
            (new \ReflectionMethod($class, $method))->getParameters(),
        );
        self::assertEqualsCanonicalizing($theirs('Push'), $ours(Client::class, 'push'));
        self::assertSame($ours(Client::class, 'push'), $ours(NewJob::class, '__construct'));
        self::assertSame($theirs('Reschedule'), $ours(Client::class, 'rescheduleAll'));
        self::assertEqualsCanonicalizing([...$theirs('Patch'), 'id', 'if_version'], array_unique([...$ours(Client::class, 'change'), ...$ours(Client::class, 'reschedule')]));
        self::assertEqualsCanonicalizing([...$theirs('Pause'), 'name'], $ours(Queues::class, 'pause'));
        self::assertSame(['selection', ...array_diff(array_column($paths['/v1/jobs/retry']['post']['parameters'], 'name'), ['traceparent'])], $ours(Client::class, 'retryAll'));
        // What is passed on as it is, is named in the comment.
        foreach ([['cancelAll', Client::class, 'Selection'], ['set', Schedules::class, 'Schedule'], ['set', Queues::class, 'QueueChanges']] as [$method, $class, $schema]) {
            foreach ($theirs($schema) as $field) {
                self::assertMatchesRegularExpression("/[`\"]{$field}[`\"]|{$field}\?:/", (string) (new \ReflectionMethod($class, $method))->getDocComment());
            }
        }
    }

    public function testJobsFollowTheEndOfAnother(): void
    {
        [$client, $queue] = [Site::client(), Site::queue()];
        $next = new NewJob($queue, new Bytes("\xff"), kind: 'next', delay: '1s', then: [new NewJob($queue, ['n' => 1])]);
        $id = $client->push($queue, 1, then: [$next], otherwise: [new NewJob($queue)])->id;
        $shown = $client->get($id)->fields;
        $last = ['queue' => $queue, 'kind' => 'default', 'payload' => ['n' => 1], 'priority' => 1024];
        self::assertSame([['queue' => $queue, 'kind' => 'next', 'payload_base64' => '/w==', 'delay_ms' => 1000, 'priority' => 1024, 'then' => [$last]]], $shown['then']);
        self::assertSame([['queue' => $queue, 'kind' => 'default', 'payload' => null, 'priority' => 1024]], $shown['otherwise']);
        self::assertNull($client->get($id)->previous);
    }

    public function testManyPushesBecomeOneJob(): void
    {
        $quiet = ['debounce' => '1h', 'at_latest' => '2h'];
        $push = fn (int $n) => Site::client()->push('debounced', $n, key: 'page-7', onConflict: $quiet);
        [$first, $second] = [$push(1), $push(2)];
        self::assertSame(['created', 'replaced', $first->id], [$first->outcome, $second->outcome, $second->id]);
        self::assertSame(2, Site::client()->get($first->id)->payload);
    }

    public function testAQueueMayHaveAnyName(): void
    {
        $client = Site::client();
        foreach (['..', '.', 'a/b;c+d', '%2e'] as $queue) {
            try {
                $id = $client->push($queue, $queue, key: 'ä/..%2f', delay: '1h')->id;
                self::assertSame($id, $client->find($queue, 'ä/..%2f')?->id);
                self::assertSame(1, $client->queues->get($queue)['scheduled']);
                self::assertSame(1, $client->queues->purge($queue));
            } catch (Invalid $error) {
                self::assertSame(['%2e', 'queue'], [$queue, $error->field]);
            }
        }
    }

    public function testRefusalsSayWhatIsWrong(): void
    {
        foreach ([fn () => Site::client()->push(Site::queue(), 1, delay: 'soon'), fn () => Site::client()->push(Site::queue(), 1, delay: -1)] as $push) {
            try {
                $push();
                self::fail('it is accepted');
            } catch (Invalid $error) {
                self::assertSame(['invalid', 'delay'], [$error->errorCode, $error->field]);
            }
        }
        $this->expectExceptionMessageMatches('/payload/');
        Site::client()->push(Site::queue(), "\xff");
    }

    public function testPushesManyAndPagesThroughThem(): void
    {
        [$client, $queue] = [Site::client(), Site::queue()];
        $jobs = (static function () use ($queue): \Generator {
            for ($n = 0; $n < 2_050; $n++) {
                yield match ($n) {
                    7 => new NewJob('not a name'),
                    2_020 => new NewJob($queue, "\xff"),
                    default => new NewJob($queue, $n, tags: ['many']),
                };
            }
        })();
        $answers = $client->pushMany($jobs);
        self::assertCount(2_050, $answers);
        $refused = array_filter($answers, static fn (Pushed|DuetimeError $answer): bool => $answer instanceof DuetimeError);
        self::assertSame([7 => 'queue', 2_020 => 'payload'], array_map(static fn (DuetimeError $error): ?string => $error->field, $refused));
        self::assertSame(2_048, \count(iterator_to_array($client->jobs(queue: $queue, state: ['ready', 'scheduled'], page: 500), false)));
        self::assertSame(['cancelled' => 2_048], $client->cancelByTag('many', $queue));
        self::assertSame([], $client->pushMany([]));
    }

    public function testChangesOneJobAndMany(): void
    {
        [$client, $queue] = [Site::client(), Site::queue()];
        $id = $client->push($queue, 1, delay: '1h', tags: ['a'])->id;
        $job = $client->change($id, ['b' => 2], priority: 7);
        self::assertSame([['b' => 2], 7], [$job->payload, $job->fields['priority']]);
        $old = ['ifVersion' => $job->version - 1];
        foreach ([['change', 'priority' => 3], ['reschedule', 'delay' => 1], ['cancel'], ['run'], ['retry'], ['delete']] as $call) {
            $method = array_shift($call);
            try {
                $client->$method($id, ...$call, ...$old);
                self::fail("$method is accepted");
            } catch (Conflict $error) {
                self::assertSame(['version_mismatch', 412], [$error->errorCode, $error->status], $method);
            }
        }
        self::assertGreaterThan(time() + 7_000, $client->reschedule($id, 7_200)->dueAt->getTimestamp());
        self::assertSame('not_due', $client->why($id)['reasons'][0]['code']);
        self::assertSame('ready', $client->run($id, ifVersion: $client->get($id)->version)->state);
        self::assertSame(['rescheduled' => 1], $client->rescheduleAll(['queue' => $queue], delay: '1h', spread: 60));
        self::assertSame(['cancelled' => 1], $client->cancelAll(['queue' => $queue, 'tag' => 'a']));
        self::assertSame('ready', $client->retry($id, ifVersion: $client->get($id)->version)->state);
        self::assertSame(1, $client->queues->purge($queue));
        self::assertSame(['retried' => 1], $client->retryAll(['queue' => $queue, 'state' => 'cancelled'], spread: '1h'));
        self::assertSame('scheduled', $client->get($id)->state);
        $client->delete($id, ifVersion: $client->get($id)->version);
        self::assertSame([], $client->deleteAll(['queue' => $queue]));
        $this->expectException(NotFound::class);
        $client->get($id);
    }

    public function testQueuesAndSchedules(): void
    {
        [$client, $queue] = [Site::client(), Site::queue()];
        $client->queues->set($queue, ['lease' => 300, 'max_age' => new \DateInterval('P1D'), 'max_running' => 20]);
        $client->queues->set($queue, ['max_age' => null]);
        foreach (['max_runing' => 7, 'lease' => -1, 'max_running' => 'many', 'retention' => ['suceeded' => '1h']] as $name => $value) {
            try {
                $client->queues->set($queue, [$name => $value]);
                self::fail("$name is accepted");
            } catch (Invalid $error) {
                self::assertStringStartsWith($name, (string) $error->field);
            }
        }
        self::assertTrue($client->queues->pause($queue, for: '1h')['paused']);
        self::assertFalse($client->queues->resume($queue)['paused']);
        self::assertSame(['lease' => '5m', 'max_running' => 20], $client->queues->get($queue)['settings']);
        $full = $queue . '-full';
        $client->queues->set($full, ['max_waiting' => 1, 'when_full' => 'drop']);
        self::assertSame(['created', 'dropped'], array_map(fn (int $n): string => $client->push($full, $n)->outcome, [1, 2]));
        $typo = $queue . '-tpyo';
        $client->push($typo, 1, delay: '1h');
        try {
            $client->queues->delete($typo);
            self::fail('a job waits');
        } catch (Conflict $error) {
            self::assertSame('queue_in_use', $error->errorCode);
        }
        self::assertSame(['existed' => true, 'cancelled' => 1, 'deleted' => 1], $client->queues->delete($typo, force: true));
        self::assertFalse($client->queues->delete($typo)['existed']);
        self::assertContains($queue, array_map(static fn (array $one): string => $one['queue'], iterator_to_array($client->queues->list(), false)));

        $client->schedules->set($queue, ['cron' => '0 3 * * *', 'time_zone' => 'Europe/Berlin', 'spread' => '1m', 'job' => ['queue' => $queue, 'payload' => null]]);
        self::assertCount(10, $client->schedules->set($queue, ['every' => '1h', 'job' => ['queue' => $queue, 'payload' => 1]], dryRun: true)['next']);
        self::assertSame('1m', $client->schedules->get($queue)['schedule']['spread']);
        self::assertCount(3, $client->schedules->next($queue, 3));
        self::assertTrue($client->schedules->pause($queue)['schedule']['paused']);
        self::assertFalse($client->schedules->resume($queue)['schedule']['paused']);
        $run = $client->schedules->run($queue);
        self::assertSame('created', $run->outcome);
        self::assertSame($queue, $client->schedules->get($queue)['name']);
        self::assertContains($queue, array_map(static fn (array $one): string => $one['name'], iterator_to_array($client->schedules->list(), false)));
        $client->schedules->delete($queue);
        $this->expectException(NotFound::class);
        $client->schedules->get($queue);
    }

    public function testALockExtendsItselfAndKnowsItsFence(): void
    {
        [$client, $name] = [Site::client(), Site::queue()];
        $first = $client->lock($name, static function (Lock $lock) use ($client, $name): int {
            // Longer than it would last by itself: a blocking call, so only another process can extend it.
            usleep(2_000_000);
            try {
                $client->lock($name, static fn () => self::fail('two have it'));
            } catch (LockHeld $error) {
                self::assertSame('lock_held', $error->errorCode);
            }
            $lock->renew();
            self::assertFalse($lock->isLost());
            return $lock->fence;
        }, ttl: '1s');
        self::assertGreaterThan($first, $client->lock($name, static fn (Lock $lock): int => $lock->fence, wait: 5));
    }

    public function testALostLockIsNotSilent(): void
    {
        [$client, $name] = [Site::client(), Site::queue()];
        $this->expectException(LockLost::class);
        $client->lock($name, static function () use ($client, $name): void {
            $owner = $client->transport->call('GET', "/v1/locks/$name")->fields['owner'];
            $client->transport->call('DELETE', '/v1/locks?owner=' . rawurlencode($owner));
        });
    }

    public function testEvents(): void
    {
        [$client, $queue] = [Site::client(), Site::queue()];
        $types = [];
        foreach ($client->events($queue) as $event) {
            $types[] = $event['type'];
            if ($event['type'] === 'subscribed') {
                $client->cancel($client->push($queue, 1, delay: '1h')->id);
            }
            if ($event['type'] === 'cancelled') {
                break;
            }
        }
        self::assertSame(['subscribed', 'pushed', 'cancelled'], $types);
        foreach ($client->events($queue, every: 0.1) as ['type' => $type]) {
            if ($type !== 'subscribed') {
                break;
            }
            $client->push($queue, 1);
        }
        self::assertSame('activity', $type);
    }

    public function testAServerThatIsNotThere(): void
    {
        $client = new \Duetime\Client('http://127.0.0.1:9', deadline: 0.3, timeout: 0.2);
        $this->expectException(Unavailable::class);
        $client->get('1');
    }

    public function testPsr18(): void
    {
        $autoload = '/usr/share/php/GuzzleHttp/autoload.php';
        if (!is_file($autoload)) {
            self::markTestSkipped('Guzzle is not installed');
        }
        require_once $autoload;
        $factory = new \GuzzleHttp\Psr7\HttpFactory();
        $http = new \Duetime\Http\Psr18Http(new \GuzzleHttp\Client(['http_errors' => false]), $factory, $factory);
        $client = new \Duetime\Client(Site::server()->address, http: $http);
        $id = $client->push(Site::queue(), ['a' => 1])->id;
        self::assertSame(['a' => 1], $client->get($id)->payload);
    }
}
