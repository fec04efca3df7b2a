<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\{RunningJob, Worker};
use PHPUnit\Framework\TestCase;

/** A handler that blocks for longer than its lease. */
final class BlockTest extends TestCase
{
    /** The five runs of a job that outlived its lease, in sleep, in a query and in a loop. @dataProvider blocks */
    public function testABlockingHandlerKeepsItsLease(\Closure $block): void
    {
        [$client, $queue, $runs] = [Site::client(), Site::queue(), 0];
        $id = $client->push($queue)->id;
        $worker = (new Worker($client, $queue, lease: '2s', logger: new Quiet()))->handle('*', static function (RunningJob $job) use ($block, &$runs): void {
            $runs++;
            $block();
            self::assertFalse($job->cancelled());
        });
        self::assertSame(1, $worker->drain());
        $job = $client->get($id);
        self::assertSame(['succeeded', 1, 1, 0], [$job->state, $job->attempt, $runs, $job->fields['crashes']]);
    }

    /** @return array<string, array{\Closure}> */
    public static function blocks(): array
    {
        return [
            'sleep' => [static fn () => sleep(3)],
            'query' => [static function (): void {
                $until = hrtime(true) + 2_500_000_000;
                for ($rows = 1_000_000; hrtime(true) < $until; $rows *= 2) {
                    (new \PDO('sqlite::memory:'))->query("with recursive c(x) as (select 1 union all select x + 1 from c where x < $rows) select count(*) from c");
                }
            }],
            'loop' => [static function (): void {
                for ($until = hrtime(true) + 2_500_000_000; hrtime(true) < $until;) {
                }
            }],
        ];
    }
}
