<?php

declare(strict_types=1);

namespace Duetime;

/**
 * What runs in the child of `Keeper`. Its input has a line for everything that is held, dropped or settled; its output a line for
 * what the parent should know. It goes on to settle what it was given after the parent has ended, and to nothing else.
 *
 * @phpstan-type Hold array{hold: string, at: float, method: string, path: string, body: string, every: float,
 *     limit?: array{after: float, path: string, body: string}|null, release?: string|null, patience?: float|null, expires?: float}
 * @phpstan-type Held array{method: string, path: string, body: string, every: float, limit: array{after: float, path: string, body: string}|null,
 *     release: string|null, expires: float, due: float, since: float, limitAt: float, giveBackAt: float}
 */
final class KeeperProcess
{
    /** Seconds after which this looks for its parent, and touches the health file. */
    private const LOOK = 5.0;
    /** Seconds for which an outcome is reported again and again; and after the end of the parent. */
    private const SETTLE_DEADLINE = 60.0;
    private const LAST_DEADLINE = 10.0;
    /** Seconds between two tries while the server is unavailable. */
    private const PAUSE = 0.5;
    /** Seconds that a parent has to exit once its job was released. */
    private const GRACE = 1.0;
    /** How many jobs a line of the log names. */
    private const IDS_SHOWN = 20;
    /** The server takes more in one request; this keeps the requests small. */
    private const BATCH = 500;

    private readonly Transport $transport;
    private readonly int $parent;
    private readonly ?string $healthFile;
    private string $text = '';
    private bool $hasEnded = false;
    private float $now = 0.0;
    private float $stopAt = \INF;
    private float $killAt = \INF;
    private float $settleAt = 0.0;
    private int $batch = self::BATCH;
    /** @var array<array-key, Held> leases and locks, by id */
    private array $held = [];
    /** @var array<array-key, array{line: string, since: float, tries: int}> outcomes, by receipt */
    private array $settles = [];
    /** @var list<string> outcomes that were not accepted, by receipt, once nobody is left to be told */
    private array $lost = [];
    /** @var list<int> whoever waits for the outcomes */
    private array $syncs = [];

    /** @param array{servers: list<string>, token: string, ca: string|null, parent: int, healthFile: string|null} $config */
    public function __construct(array $config)
    {
        $this->transport = new Transport($config['servers'], $config['token'], ca: $config['ca']);
        $this->parent = $config['parent'];
        $this->healthFile = $config['healthFile'];
    }

    /** Until its input or its parent ends. */
    public function run(): void
    {
        if (\function_exists('pcntl_signal')) {
            // A terminal and a service manager send these to the whole group. The parent decides when this ends.
            foreach ([\SIGINT, \SIGTERM, \SIGHUP] as $signal) {
                pcntl_signal($signal, \SIG_IGN);
            }
        }
        stream_set_blocking(\STDIN, false);
        while (!$this->hasEnded) {
            $this->receive();
            $this->giveBack();
            $this->settle(self::SETTLE_DEADLINE);
            if ($this->now >= $this->stopAt) {
                $this->stop();
            }
            if ($this->now >= $this->killAt) {
                $this->log('a process that does not stop is killed');
                $this->kill(\SIGKILL);
                $this->killAt = \INF;
            }
            foreach (array_keys($this->held) as $id) {
                $this->keep((string) $id);
            }
            if ($this->healthFile !== null && $this->held !== []) {
                touch($this->healthFile);
            }
        }
        // What has not begun is given back; what was running may go on elsewhere, so its lease expires.
        $this->giveBack(true);
        for ($until = $this->now + self::LAST_DEADLINE; $this->settles !== [] && $this->now < $until; $this->now = Clock::now()) {
            $this->settle(self::LAST_DEADLINE);
            /** @psalm-suppress RedundantCondition `settle` removes what is settled */
            $this->settles === [] || Clock::sleep(self::PAUSE);
        }
        $lost = array_map(static fn (string $receipt): string => (string) strtok($receipt, '.'), [...$this->lost, ...array_map('strval', array_keys($this->settles))]);
        if ($lost !== []) {
            $shown = implode(', ', \array_slice($lost, 0, self::IDS_SHOWN)) . (\count($lost) > self::IDS_SHOWN ? ' …' : '');
            $this->log('stopped with ' . \count($lost) . " outcomes that were not acknowledged; these jobs run again: $shown");
        }
    }

    private function receive(): void
    {
        $this->now = Clock::now();
        $until = min($this->now + self::LOOK, $this->stopAt, $this->killAt, $this->settles === [] ? \INF : $this->settleAt);
        foreach ($this->held as $one) {
            $until = min($until, $one['due'], $one['limitAt'], $one['giveBackAt']);
        }
        $wait = max(0.0, $until - $this->now);
        [$read, $none] = [[\STDIN], null];
        $isReadable = stream_select($read, $none, $none, (int) $wait, (int) (fmod($wait, 1) * 1e6)) !== 0;
        $this->now = Clock::now();
        if ($isReadable) {
            // Everything that is there: decisions are as of a moment before which all that the parent said is known.
            do {
                $part = (string) fread(\STDIN, 65_536);
                $this->text .= $part;
            } while ($part !== '');
            $this->hasEnded = feof(\STDIN);
        }
        $this->hasEnded = $this->hasEnded || (\function_exists('posix_getppid') && posix_getppid() !== $this->parent);
        $lines = explode("\n", $this->text);
        $this->text = array_pop($lines);
        foreach ($lines as $line) {
            $this->obey($line);
        }
        if ($this->held === []) {
            $this->stopAt = \INF;
        }
    }

    private function obey(string $line): void
    {
        // An outcome is passed on as it is.
        if (str_starts_with($line, '{"receipt":')) {
            $receipt = substr($line, 12, (int) strpos($line, '"', 12) - 12);
            $this->settles[$receipt] = ['line' => $line, 'since' => $this->now, 'tries' => 0];
            $this->settleAt = $this->now;
            if (isset($this->held[$receipt])) {
                $this->held[$receipt] = ['release' => null, 'limitAt' => \INF, 'giveBackAt' => \INF] + $this->held[$receipt];
            }
            return;
        }
        if (str_starts_with($line, '{"hold":')) {
            /** @var Hold $hold */
            $hold = Json::decode($line);
            $this->held[$hold['hold']] = [
                'method' => $hold['method'],
                'path' => $hold['path'],
                'body' => $hold['body'],
                'every' => $hold['every'],
                'limit' => $hold['limit'] ?? null,
                'release' => $hold['release'] ?? null,
                'expires' => $hold['expires'] ?? \INF,
                'due' => $hold['at'] + $hold['every'],
                'since' => $hold['at'],
                'limitAt' => $hold['at'] + ($hold['limit']['after'] ?? \INF),
                'giveBackAt' => $hold['at'] + ($hold['patience'] ?? \INF),
            ];
            return;
        }
        /** @var array{start?: string, give_back?: string, drop?: string, stop?: float, end?: true, sync?: int} $message */
        $message = Json::decode($line);
        if (isset($message['start'])) {
            isset($this->held[$message['start']]) && $this->held[$message['start']]['giveBackAt'] = \INF;
        } elseif (isset($message['give_back'])) {
            // Not before now, as those that lose their patience.
            isset($this->held[$message['give_back']]) && $this->held[$message['give_back']]['giveBackAt'] = $this->now;
        } elseif (isset($message['drop'])) {
            unset($this->held[$message['drop']]);
        } elseif (isset($message['stop'])) {
            $this->stopAt = $this->now + $message['stop'];
        } elseif (isset($message['end'])) {
            $this->hasEnded = true;
        } elseif (isset($message['sync'])) {
            $this->syncs[] = $message['sync'];
        }
    }

    /** Reports the outcomes that there are, all at once; more come meanwhile. */
    private function settle(float $deadline): void
    {
        if ($this->settles !== [] && $this->now >= $this->settleAt) {
            $batch = \array_slice($this->settles, 0, $this->batch, true);
            foreach (array_keys($batch) as $receipt) {
                $this->settles[$receipt]['tries']++;
            }
            try {
                $lines = implode(',', array_column($batch, 'line'));
                $answer = $this->transport->call('POST', '/v1/settle', "[$lines]", deadline: 5, tries: \count($this->transport->servers));
                foreach (array_keys($batch) as $n => $receipt) {
                    $this->settles[$receipt]['tries'] += $answer->tries - 1;
                    $this->settled((string) $receipt, $answer->refusal($n), $deadline);
                }
            } catch (DuetimeError $error) {
                if (\count($batch) > 1 && !$error->mayPass()) {
                    // One of them displeases a proxy, perhaps.
                    $this->batch = 1;
                    return;
                }
                foreach (array_keys($batch) as $receipt) {
                    $this->settled((string) $receipt, $error, $deadline);
                }
            }
        }
        if ($this->settles === []) {
            foreach ($this->syncs as $sync) {
                $this->say(['sync' => $sync]);
            }
            [$this->syncs, $this->batch] = [[], self::BATCH];
        }
    }

    private function settled(string $receipt, ?DuetimeError $error, float $deadline): void
    {
        $settle = $this->settles[$receipt];
        if ($error?->mayPass() && $this->now - $settle['since'] < $deadline) {
            $this->settleAt = $this->now + self::PAUSE;
            return;
        }
        unset($this->settles[$receipt], $this->held[$receipt]);
        // A lost lease is how a repeat is answered whose first try had an answer that was lost.
        if ($error !== null && (!$error instanceof Error\LeaseLost || $settle['tries'] === 1)) {
            $this->say(['id' => $receipt, 'event' => 'unsettled', 'code' => $error->errorCode, 'detail' => $error->detail]);
            if ($this->hasEnded) {
                $this->lost[] = $receipt;
            }
        }
    }

    /** The jobs that the parent has fetched, and has not begun in time. */
    private function giveBack(bool $all = false): void
    {
        foreach ($this->held as $id => $one) {
            if ($one['release'] !== null && ($all ? $one['giveBackAt'] !== \INF : $this->now >= $one['giveBackAt'])) {
                unset($this->held[$id]);
                $this->settles[$id] = ['line' => "{\"receipt\":\"$id\",\"release\":{}}", 'since' => $this->now, 'tries' => 0];
                $this->settleAt = $this->now;
            }
        }
    }

    /** Releases what is held, and has the parent end. */
    private function stop(): void
    {
        foreach ($this->held as $id => $one) {
            if ($one['release'] !== null) {
                $this->end($one['release'], null);
                unset($this->held[$id]);
            }
        }
        $this->say(['released' => true]);
        $this->kill(\SIGTERM);
        // To give back may have taken seconds.
        [$this->stopAt, $this->killAt] = [\INF, Clock::now() + self::GRACE];
    }

    /** Ends a lease for the parent. */
    private function end(string $path, ?string $body): void
    {
        try {
            $this->transport->call('POST', $path, $body, timeout: 2, deadline: 2);
        } catch (Error\LeaseLost) {
            // It has ended already.
        } catch (DuetimeError $error) {
            $this->log("the job of $path runs again once its lease ends: {$error->getMessage()}");
        }
    }

    private function log(string $message): void
    {
        @fwrite(\STDERR, "duetime: $message\n");
    }

    private function kill(int $signal): void
    {
        \function_exists('posix_kill') ? posix_kill($this->parent, $signal) : exec("kill -$signal {$this->parent}");
    }

    /** Extends what is due, and ends what has taken too long. */
    private function keep(string $id): void
    {
        $one = $this->held[$id];
        if ($one['limit'] !== null && $this->now >= $one['limitAt']) {
            $this->log('job ' . strtok($id, '.') . ": the time limit of {$one['limit']['after']} s is exceeded, so its process is killed");
            $this->end($one['limit']['path'], $one['limit']['body']);
            unset($this->held[$id]);
            $this->kill(\SIGKILL);
            return;
        }
        if ($this->now < $one['due']) {
            return;
        }
        try {
            $timeout = min(5.0, $one['every']);
            $answer = $this->transport->call($one['method'], $one['path'], $one['body'], timeout: $timeout, deadline: $timeout, tries: \count($this->transport->servers));
            [$this->held[$id]['due'], $this->held[$id]['since']] = [$this->now + $one['every'], $this->now];
            if ($answer->fields['cancel_requested'] ?? false) {
                $this->say(['id' => $id, 'event' => 'cancel']);
            }
        } catch (DuetimeError $error) {
            $this->held[$id]['due'] = $this->now + min(self::PAUSE, $one['every']);
            if (!$error->mayPass() || $this->now - $one['since'] >= $one['expires']) {
                unset($this->held[$id]);
                $this->say(['id' => $id, 'event' => 'lost']);
            }
        }
    }

    /** @param array<string, mixed> $message */
    private function say(array $message): void
    {
        @fwrite(\STDOUT, Json::encode($message) . "\n");
    }
}
