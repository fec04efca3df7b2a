<?php

declare(strict_types=1);

namespace Duetime\Testing;

use Duetime\{Client, Clock, Duration, Json};

/**
 * A private server for tests: in memory, on a free port of this machine. It stops with the object.
 *
 *     $server = Server::start();
 *     $client = $server->client();
 *     $client->push('orders', ['order' => 4711], delay: '30m');
 *     $server->advance('30m');
 */
final class Server
{
    /** Seconds for its start. */
    private const START = 30.0;
    /** Seconds for a move of its clock. */
    private const ADVANCE = 60.0;

    private readonly int $pid;

    /**
     * @param resource|closed-resource $process
     * @param array<resource> $pipes kept open: the server ends with its input, so it does not outlive a test that is killed
     */
    private function __construct(private $process, private readonly array $pipes, public readonly string $address)
    {
        $this->pid = (int) getmypid();
    }

    public function __destruct()
    {
        $this->stop();
    }

    /**
     * @param string|null $binary by default `DUETIME_BIN`, else `duetime` from the `PATH`
     * @param list<string> $arguments of `duetime serve`. Only with `--test` can the clock be advanced
     */
    public static function start(?string $binary = null, array $arguments = ['--test']): self
    {
        $binary ??= getenv('DUETIME_BIN') ?: 'duetime';
        $log = tempnam(sys_get_temp_dir(), 'duetime');
        $process = proc_open([$binary, 'serve', ...$arguments], [['pipe', 'r'], ['pipe', 'w'], ['file', $log, 'w']], $pipes);
        $problem = static fn (string $got): \RuntimeException
            => new \RuntimeException("expected an address from `$binary serve`, got: $got\nSet DUETIME_BIN, or add duetime to the PATH");
        if ($process === false) {
            throw $problem('nothing');
        }
        [$text, $found, $until] = ['', [], Clock::now() + self::START];
        stream_set_blocking($pipes[1], false);
        while (preg_match('#https?://[0-9.:\[\]]+#', $text, $found) !== 1 || !str_contains($text, "\n")) {
            [$read, $none] = [[$pipes[1]], null];
            stream_select($read, $none, $none, 1);
            $text .= (string) fread($pipes[1], 4096);
            if (feof($pipes[1]) || Clock::now() > $until) {
                throw $problem($text . (string) file_get_contents($log));
            }
        }
        unlink($log);
        return new self($process, $pipes, $found[0] ?? '');
    }

    /** A client of the server, without a token. */
    public function client(): Client
    {
        return new Client($this->address, '');
    }

    /**
     * Moves the server's clock on. Jobs become due, schedules push, leases and pauses end, each at its time.
     *
     * @param string|int|float|\DateInterval $by text such as `"30m"`, or seconds
     */
    public function advance(string|int|float|\DateInterval $by): void
    {
        // A second try would move it again.
        $body = Json::object(['by' => Duration::text($by, 'by')]);
        $this->client()->transport->call('POST', '/v1/clock/advance', $body, timeout: self::ADVANCE, deadline: self::ADVANCE, tries: 1);
    }

    /** Ends the server. In a process that the test has forked, this does nothing. */
    public function stop(): void
    {
        if (\is_resource($this->process) && $this->pid === getmypid()) {
            proc_terminate($this->process);
            array_map(fclose(...), $this->pipes);
            proc_close($this->process);
        }
    }
}
