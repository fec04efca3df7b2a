<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\{Keeper, Transport};
use PHPUnit\Framework\TestCase;

/** What the child process of a worker does with outcomes. */
final class KeeperTest extends TestCase
{
    public function testOutcomesThatAProxyRefusesTogetherAreReportedOneByOne(): void
    {
        $asked = (string) tempnam(sys_get_temp_dir(), 'duetime');
        $proxy = proc_open([PHP_BINARY, '-S', '127.0.0.1:0', __DIR__ . '/one-outcome.php'], [['file', '/dev/null', 'r'], ['file', '/dev/null', 'w'], ['pipe', 'w']],
            $pipes, null, ['ASKED' => $asked]);
        self::assertIsResource($proxy);
        try {
            self::assertSame(1, preg_match('#http://[0-9.:]+#', (string) fgets($pipes[2]), $address));
            $keeper = new Keeper(new Transport($address[0], ''));
            $receipts = array_map(static fn (int $n): string => "$n.1", range(1, 30));
            foreach ($receipts as $receipt) {
                $keeper->settle($receipt, 'complete', []);
            }
            self::assertSame([], $keeper->sync());
            $lines = (array) file($asked, FILE_IGNORE_NEW_LINES);
            $alone = array_values(array_filter($lines, static fn (string $line): bool => !str_contains($line, ',')));
            self::assertSame($receipts, $alone);
            self::assertGreaterThan(30, \count($lines), 'several together were refused');
        } finally {
            proc_terminate($proxy);
            proc_close($proxy);
            unlink($asked);
        }
    }
}
