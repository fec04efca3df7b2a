<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\{Keeper, Transport};
use PHPUnit\Framework\TestCase;

/** What the child process of a worker does with outcomes. */
final class KeeperTest extends TestCase
{
    private string $asked;
    /** @var resource */
    private $proxy;
    /** @var array<int, resource> */
    private array $pipes = [];
    private string $address;

    protected function setUp(): void
    {
        $this->asked = (string) tempnam(sys_get_temp_dir(), 'duetime');
        $proxy = proc_open([PHP_BINARY, '-S', '127.0.0.1:0', __DIR__ . '/one-outcome.php'], [['file', '/dev/null', 'r'], ['file', '/dev/null', 'w'], ['pipe', 'w']],
            $this->pipes, null, ['ASKED' => $this->asked]);
        self::assertIsResource($proxy);
        $this->proxy = $proxy;
        self::assertSame(1, preg_match('#http://[0-9.:]+#', (string) fgets($this->pipes[2]), $address));
        $this->address = $address[0];
    }

    protected function tearDown(): void
    {
        proc_terminate($this->proxy);
        proc_close($this->proxy);
        unlink($this->asked);
    }

    public function testOutcomesThatAProxyRefusesTogetherAreReportedOneByOne(): void
    {
        $keeper = new Keeper(new Transport($this->address, ''));
        $receipts = array_map(static fn (int $n): string => "$n.1", range(1, 30));
        foreach ($receipts as $receipt) {
            $keeper->settle($receipt, 'complete', []);
        }
        self::assertSame([], $keeper->sync());
        $lines = (array) file($this->asked, FILE_IGNORE_NEW_LINES);
        $alone = array_values(array_filter($lines, static fn (string $line): bool => !str_contains($line, ',')));
        self::assertSame($receipts, $alone);
        self::assertGreaterThan(30, \count($lines), 'several together were refused');
    }

    public function testOutcomesThatNobodyTakesAreNamedAtTheEnd(): void
    {
        $program = 'require $argv[1]; $keeper = new Duetime\Keeper(new Duetime\Transport($argv[2], ""));
            foreach (["1.1", "0.1", "2.1"] as $receipt) { $keeper->settle($receipt, "complete", []); }';
        $process = proc_open([PHP_BINARY, '-r', $program, __DIR__ . '/../src/autoload.php', $this->address], [2 => ['pipe', 'w']], $pipes);
        self::assertIsResource($process);
        self::assertSame("duetime: stopped with 1 outcomes that were not acknowledged; these jobs run again: 0\n", stream_get_contents($pipes[2]));
        self::assertSame(0, proc_close($process));
    }
}
