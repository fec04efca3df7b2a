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

    public function testRefusesAWrongAddress(): void
    {
        $this->expectException(Invalid::class);
        new Transport('localhost:7300');
    }
}
