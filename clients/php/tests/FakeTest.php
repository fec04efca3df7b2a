<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\{CancelOutcome, Fatal, NewJob, Park, Release, RunningJob, Worker};
use Duetime\Error\{Conflict, NotFound};
use Duetime\Testing\Fake;
use PHPUnit\Framework\TestCase;

final class FakeTest extends TestCase
{
    public function testRecordsPushesAndRunsHandlers(): void
    {
        $fake = new Fake();
        $client = $fake->client();
        $client->push('orders', ['order' => 1], kind: 'order.cancel', key: 'order-1', delay: '30m');
        self::assertSame('kept', $client->push('orders', ['order' => 1], key: 'order-1')->outcome);
        $client->push('orders', ['order' => 2], kind: 'order.cancel', key: 'order-2', delay: '30m');
        self::assertSame(['order-1', 'order-2'], array_column($fake->pushed('orders'), 'key'));
        self::assertSame('30m', $fake->pushed()[0]->fields['delay']);
        self::assertSame(CancelOutcome::Cancelled, $client->cancelByKey('orders', 'order-1'));

        $ran = [];
        $worker = (new Worker($client, 'orders'))->handle('order.cancel', static function (RunningJob $job) use (&$ran, $client): string {
            $ran[] = $job->payload['order'];
            $job->progress(50);
            $client->push('mail', 'cancelled');
            $job->followWith(new NewJob('bills', ['void' => 2], kind: 'bill.void'));
            return 'done';
        });
        self::assertSame(1, $fake->run($worker));
        self::assertSame([['void' => 2]], array_column($fake->pushed('bills'), 'payload'));
        self::assertSame([2], $ran);
        self::assertSame(['succeeded', 'done'], [$client->find('orders', 'order-2')?->state, $client->get('2')->result]);
        self::assertSame(['cancelled'], array_column($fake->pushed('mail'), 'payload'));
        self::assertSame(CancelOutcome::AlreadyFinished, $client->cancel('2'));
    }

    public function testFailuresAndRefusals(): void
    {
        $fake = new Fake();
        $client = $fake->client();
        $client->push('q', 1, key: 'k');
        try {
            $client->push('q', 2, key: 'k', onConflict: 'reject');
            self::fail('it is accepted');
        } catch (Conflict $error) {
            self::assertSame('1', $error->holder);
        }
        self::assertSame('replaced', $client->push('q', 3, key: 'k', onConflict: 'replace')->outcome);
        self::assertSame(3, $fake->pushed()[0]->payload);
        try {
            $fake->run((new Worker($client, 'q'))->handle('*', static fn () => throw new Fatal('no')));
            self::fail('it is swallowed');
        } catch (Fatal) {
            self::assertSame('failed', $client->get('1')->state);
        }
        $later = $client->push('q', 'later', kind: 'later')->id;
        $parked = $client->push('q', 'park', kind: 'park')->id;
        $worker = (new Worker($client, 'q'))->handle('later', static fn () => throw new Release('1h', priority: 9))
            ->handle('park', static fn () => throw new Park('by hand', priority: 7));
        self::assertSame(2, $fake->run($worker));
        foreach ([[$later, 'scheduled', 0, 9], [$parked, 'failed', 1, 7]] as [$id, $state, $attempt, $priority]) {
            $job = $client->get($id);
            self::assertSame([$state, $attempt, $priority], [$job->state, $job->attempt, $job->fields['priority']]);
        }
        $this->expectException(NotFound::class);
        $client->get('99');
    }
}
