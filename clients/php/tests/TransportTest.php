<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\{Client, DuetimeError, Transport};
use Duetime\Error\{Conflict, Invalid, LeaseLost, Protocol, RateLimited, Unauthorized, Unavailable};
use Duetime\Http\Response;
use PHPUnit\Framework\TestCase;

final class TransportTest extends TestCase
{
    /** Without pauses between tries: a second server is asked at once. */
    private const TWO = ['http://one', 'http://two'];

    public function testRepeatsAtTheNextServer(): void
    {
        $http = new ScriptedHttp([ScriptedHttp::problem(503, 'stopping'), ScriptedHttp::ok(['a' => 1])]);
        $answer = (new Transport(self::TWO, '', http: $http))->call('GET', '/v1/jobs/1');
        self::assertSame([['a' => 1], 2], [$answer->fields, $answer->tries]);
        self::assertSame(['http://one/v1/jobs/1', 'http://two/v1/jobs/1'], array_column($http->sent, 'url'));
    }

    /** @dataProvider passing */
    public function testWhatIsRepeated(Response|\Throwable $first): void
    {
        $http = new ScriptedHttp([$first, ScriptedHttp::ok([])]);
        (new Transport(self::TWO, '', http: $http))->call('GET', '/');
        self::assertCount(2, $http->sent);
    }

    /** @return array<string, array{Response|\Throwable}> */
    public static function passing(): array
    {
        return [
            'connection' => [new Unavailable('unreachable', 0, 'refused')],
            'cut off' => [new Protocol('protocol', 0, 'cut off')],
            '408' => [ScriptedHttp::problem(408, 'timeout')],
            '429' => [ScriptedHttp::problem(429, 'too_many_requests', ['retry-after' => '0'])],
            '503' => [ScriptedHttp::problem(503, 'store_unavailable')],
            'a time to wait that is none' => [ScriptedHttp::problem(503, 'stopping', ['retry-after' => '-5'])],
            'a proxy' => [new Response(502, [], '<html>')],
            'a page' => [new Response(200, [], '<html>hello')],
            'half an answer' => [new Response(200, [], '{"id":')],
        ];
    }

    /** @dataProvider final */
    public function testWhatIsNot(Response $answer, string $class, string $code): void
    {
        $http = new ScriptedHttp([$answer]);
        try {
            (new Transport(self::TWO, '', http: $http))->call('GET', '/');
            self::fail('it is accepted');
        } catch (DuetimeError $error) {
            self::assertSame([$class, $code, 1], [$error::class, $error->errorCode, \count($http->sent)]);
        }
    }

    /** @return list<array{Response, class-string, string}> */
    public static function final(): array
    {
        return [
            [ScriptedHttp::problem(400, 'invalid'), Invalid::class, 'invalid'],
            [ScriptedHttp::problem(409, 'key_conflict'), Conflict::class, 'key_conflict'],
            [ScriptedHttp::problem(409, 'lease_lost'), LeaseLost::class, 'lease_lost'],
            [ScriptedHttp::problem(507, 'store_full'), Unavailable::class, 'store_full'],
            [ScriptedHttp::problem(422, 'of_tomorrow'), Invalid::class, 'of_tomorrow'],
            [new Response(401, [], 'who?'), Unauthorized::class, 'unauthorized'],
        ];
    }

    public function testWaitsAsTheServerSays(): void
    {
        $http = new ScriptedHttp([ScriptedHttp::problem(429, 'too_many_requests', ['retry-after' => '100'])]);
        try {
            (new Transport('http://one', '', http: $http, deadline: 30))->call('GET', '/');
            self::fail('it is accepted');
        } catch (RateLimited $error) {
            self::assertSame(100.0, $error->retryAfter, 'longer than the deadline: no use to wait');
        }
    }

    public function testAPushIsSentTwiceWithOneOrigin(): void
    {
        $fails = new Unavailable('timeout', 0, 'no answer');
        $http = new ScriptedHttp([$fails, $fails]);
        try {
            (new Client(self::TWO, '', http: $http))->push('q', 1);
            self::fail('it is accepted');
        } catch (Unavailable $error) {
            self::assertSame(2, $error->tries);
        }
        self::assertSame($http->sent[0]['body']['origin'], $http->sent[1]['body']['origin']);
        self::assertGreaterThan(10, \strlen($http->sent[0]['body']['origin']));
        self::assertLessThanOrEqual(5_000, $http->sent[0]['timeoutMs']);
    }

    public function testACancelWhoseAnswerWasLostSaysWhatHappened(): void
    {
        $lost = new Protocol('protocol', 0, 'cut off');
        $job = ['id' => '7', 'queue' => 'q', 'state' => 'cancelled', 'finished_at' => gmdate('Y-m-d\TH:i:s\Z'), 'due_at' => gmdate('c')];
        $http = new ScriptedHttp([$lost, ScriptedHttp::ok((object) []), ScriptedHttp::ok(['jobs' => [$job], 'next_cursor' => null])]);
        self::assertSame('cancelled', (new Client(self::TWO, '', http: $http))->cancelByKey('q', 'k')->value);

        $old = ['finished_at' => gmdate('Y-m-d\TH:i:s\Z', time() - 3600)] + $job;
        $http = new ScriptedHttp([$lost, ScriptedHttp::ok((object) []), ScriptedHttp::ok(['jobs' => [$old], 'next_cursor' => null])]);
        self::assertSame('none', (new Client(self::TWO, '', http: $http))->cancelByKey('q', 'k')->value);
    }

    public function testAfterALostAnswerNobodyKnowsWhoChangedAVersion(): void
    {
        $mismatch = ScriptedHttp::problem(412, 'version_mismatch');
        $unsent = new Unavailable('unreachable', 0, 'refused');
        $unsent->isUnsent = true;
        foreach ([[new Protocol('protocol', 0, 'cut off'), Protocol::class], [$unsent, Conflict::class], [ScriptedHttp::problem(503, 'stopping'), Conflict::class]] as [$first, $class]) {
            $http = new ScriptedHttp([$first, $mismatch]);
            try {
                (new Client(self::TWO, '', http: $http))->cancel('7', ifVersion: 3);
                self::fail('it is accepted');
            } catch (DuetimeError $error) {
                self::assertInstanceOf($class, $error);
                self::assertCount(2, array_filter($http->sent, static fn (array $one): bool => \in_array('if-match: "3"', $one['headers'], true)));
            }
        }
    }

    public function testEveryCodeOfTheDocsHasItsClass(): void
    {
        $page = (string) file_get_contents(__DIR__ . '/../../../docs/reference/errors.md');
        preg_match_all('/^\| `(\w+)` \| (\d+)/m', $page, $rows, PREG_SET_ORDER);
        self::assertGreaterThan(30, \count($rows));
        foreach ($rows as [, $code, $status]) {
            $error = DuetimeError::of(ScriptedHttp::problem((int) $status, $code));
            self::assertSame((int) $status >= 500 && $status !== '503' && $status !== '507', $error::class === DuetimeError::class, $code);
        }
    }

    public function testAUnixSocket(): void
    {
        $path = sys_get_temp_dir() . '/duetime-' . bin2hex(random_bytes(6)) . '.sock';
        $server = stream_socket_server("unix://$path");
        self::assertNotFalse($server);
        $pid = pcntl_fork();
        if ($pid === 0) {
            $connection = stream_socket_accept($server);
            $asked = (string) fgets($connection);
            fwrite($connection, "HTTP/1.1 200 OK\r\ncontent-length: " . \strlen($asked) + 5 . "\r\n\r\n[\"" . trim($asked) . '"]   ');
            posix_kill((int) getmypid(), SIGKILL);
        }
        putenv('http_proxy=http://127.0.0.1:1');
        try {
            self::assertSame(['GET /v1/jobs/.. HTTP/1.1'], (new Transport("unix:$path", ''))->call('GET', Transport::path('jobs', '..'))->fields);
        } finally {
            putenv('http_proxy');
            unlink($path);
            pcntl_waitpid($pid, $status);
        }
    }

    public function testARepeatThatCurlMakesByItselfCounts(): void
    {
        $server = stream_socket_server('tcp://127.0.0.1:0');
        self::assertNotFalse($server);
        [$mine, $its] = (array) stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid === 0) {
            $connection = null;
            foreach (['answer', 'cut', 'answer', 'close', 'answer'] as $what) {
                $connection ??= stream_socket_accept($server);
                for ($head = ''; !str_ends_with($head, "\r\n\r\n");) {
                    $head .= fgets($connection);
                }
                $what === 'cut' || fwrite($connection, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]");
                $connection = $what === 'answer' ? $connection : null;
                $what === 'close' && fwrite($its, '.');
            }
            posix_kill((int) getmypid(), SIGKILL);
        }
        $transport = new Transport('http://' . stream_socket_get_name($server, false), '');
        $tries = static fn (): int => $transport->call('DELETE', '/v1/jobs/1')->tries;
        // The first connection breaks without an answer; the second was closed before the last request.
        self::assertSame([1, 2, 1], [$tries(), $tries(), $tries()]);
        self::assertSame('.', fread($mine, 1));
        self::assertSame(1, $tries());
        pcntl_waitpid($pid, $status);
    }

    public function testWhatARepeatFindsDone(): void
    {
        $lost = new Protocol('protocol', 0, 'cut off');
        foreach (['retry' => 'job_live', 'run' => 'job_running'] as $verb => $code) {
            $http = new ScriptedHttp([$lost, ScriptedHttp::problem(409, $code), ScriptedHttp::pushed()]);
            self::assertSame('1', (new Client(self::TWO, '', http: $http))->$verb('1')->id);
            $http = new ScriptedHttp([ScriptedHttp::problem(409, $code)]);
            try {
                (new Client(self::TWO, '', http: $http))->$verb('1');
                self::fail('it is accepted');
            } catch (Conflict $error) {
                self::assertSame($code, $error->errorCode);
            }
        }
        $http = new ScriptedHttp([$lost, ScriptedHttp::pushed('repeated')]);
        self::assertSame('created', (new Client(self::TWO, '', http: $http))->push('q', 1)->outcome);
        $http = new ScriptedHttp([$lost, ScriptedHttp::pushed('repeated')]);
        self::assertSame('repeated', (new Client(self::TWO, '', http: $http))->push('q', 1, origin: 'mine')->outcome);
    }

    public function testWhatIsNotWhatWasAskedForIsAnErrorOfTheProtocol(): void
    {
        foreach ([
            static fn (Client $client) => $client->get('1'),
            static fn (Client $client) => $client->cancel('1'),
            static fn (Client $client) => $client->push('q', 1),
            static fn (Client $client) => $client->pushMany([new \Duetime\NewJob('q'), new \Duetime\NewJob('q'), new \Duetime\NewJob('q')]),
            static fn (Client $client) => $client->schedules->run('s'),
            static fn (Client $client) => [...$client->jobs()],
            static fn (Client $client) => [...$client->queues->list()],
            static fn (Client $client) => $client->lock('l', static fn () => null, extends: false),
        ] as $call) {
            try {
                $call(new Client(self::TWO, '', http: new ScriptedHttp([ScriptedHttp::ok(['jobs' => [7], 'queues' => 7])])));
                self::fail('it is accepted');
            } catch (Protocol $error) {
                self::assertStringContainsString('"jobs":[7]', $error->getMessage());
            }
        }
    }

    public function testABatchThatIsRefusedIsNoErrorOfTheJobAfterIt(): void
    {
        $http = new ScriptedHttp([ScriptedHttp::problem(413, 'body_too_large')]);
        try {
            (new Client(self::TWO, '', http: $http))->pushMany(array_fill(0, 1_001, new \Duetime\NewJob('q')));
            self::fail('it is accepted');
        } catch (Invalid $error) {
            self::assertSame('body_too_large', $error->errorCode);
        }
        self::assertCount(1, $http->sent);
    }

    public function testWhatHasNoFormInJsonNamesItsField(): void
    {
        $client = new Client(self::TWO, '', http: new ScriptedHttp([]));
        foreach (['key' => static fn () => $client->push('q', 1, key: "\xff"), 'tag' => static fn () => $client->cancelByTag("\xff"),
            'payload' => static fn () => $client->change('1', NAN), 'name' => static fn () => $client->delete('')] as $field => $call) {
            try {
                $call();
                self::fail('it is accepted');
            } catch (Invalid $error) {
                self::assertSame($field, $error->field);
            }
        }
    }

    public function testRefusesAWrongAddress(): void
    {
        $this->expectException(Invalid::class);
        new Transport('localhost:7300');
    }
}
