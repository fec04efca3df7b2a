<?php

declare(strict_types=1);

namespace Duetime;

/**
 * A child process that extends leases and locks while this process is busy.
 *
 * PHP runs the handlers of signals only between its own instructions. With `pcntl_alarm`, measured with a handler that blocks for
 * some time and a tick each second: in a busy loop every tick came; `sleep(5)` ended after 1 s, because the signal cut it short; in a
 * PDO query of 65 s one tick came, after it. So a timer in the process either loses the lease or breaks the handler. A child
 * process ticked through all three. It is a fresh PHP (`proc_open`), not a fork: a fork would share the sockets of the handler's
 * database connections, and close them when it ends.
 *
 * The child ends when its input does, so it never extends for a parent that has died, and when it has another parent. It starts at
 * the first lease, and costs no request for jobs that are shorter than a third of their lease. It can also report outcomes, in
 * batches, while the parent runs the next job. What it was told is done even if the parent is killed the moment after.
 */
final class Keeper
{
    /** @var resource|null */
    private $process = null;
    /** @var resource */
    private $input;
    /** @var resource */
    private $output;
    private int $pid = 0;
    private string $received = '';
    /** @var array<string, string> what it holds, to say it again to a new child */
    private array $held = [];
    /** @var array<string, string> what it said of them: `cancel` or `lost` */
    private array $events = [];
    /** @var list<array{id: string, code: string, detail: string}> outcomes that were refused */
    private array $unsettled = [];
    /** @var array{string, float} a lease and its seconds: that of most jobs is the same */
    private array $lease = ['60s', 60.0];
    private bool $hasReleased = false;
    private int $sync = 0;
    private int $synced = 0;

    /** @param string|null $healthFile touched every few seconds while something is held */
    public function __construct(private readonly Transport $transport, private readonly ?string $healthFile = null)
    {
    }

    public function __destruct()
    {
        $this->end();
    }

    /** Starts the child before it is needed, so that the first lease does not have to wait for it. */
    public function launch(): void
    {
        if ($this->process === null || $this->pid !== getmypid()) {
            $this->begin();
        }
    }

    /**
     * Extends a lease until `drop`.
     *
     * @param string $lease how long it lasts
     * @param float|null $timeLimit seconds after which the job fails and this process is killed
     * @param float|null $patience seconds after which it is given back, unless `start` is called before
     */
    public function holdLease(string $receipt, string $lease, ?float $timeLimit = null, ?float $patience = null): void
    {
        $path = "/v1/leases/$receipt";
        $fail = ['message' => "the time limit of $timeLimit s is exceeded"];
        $seconds = $lease === $this->lease[0] ? $this->lease[1] : Duration::seconds($lease, 'lease');
        $this->lease = [$lease, $seconds];
        $this->hold($receipt, [
            'method' => 'POST',
            'path' => "$path/extend",
            'body' => Json::object(['lease' => $lease]),
            'every' => $seconds / 3,
            'limit' => $timeLimit === null ? null : ['after' => $timeLimit, 'path' => "$path/fail", 'body' => Json::object($fail)],
            'release' => "$path/release",
            'patience' => $patience,
        ]);
    }

    /** The job of this lease begins now. */
    public function start(string $receipt): void
    {
        $this->say(['start' => $receipt]);
    }

    /**
     * Ends a lease, at the next opportunity. It is extended until that has succeeded.
     *
     * @param string $verb `complete`, `fail` or `release`
     * @param array<string, mixed> $body
     */
    public function settle(string $receipt, string $verb, array $body): void
    {
        unset($this->held[$receipt], $this->events[$receipt]);
        $line = Json::object(['receipt' => $receipt, $verb => new RawJson(Json::object($body))]) . "\n";
        $this->launch();
        $this->deliver($line);
    }

    /**
     * Waits until all outcomes are reported.
     *
     * @return list<array{id: string, code: string, detail: string}> those that were refused since the last call
     */
    public function sync(): array
    {
        if ($this->process !== null && $this->pid === getmypid() && $this->write(Json::encode(['sync' => ++$this->sync]) . "\n")) {
            stream_set_blocking($this->output, true);
            while ($this->synced < $this->sync && !feof($this->output)) {
                $this->receive();
            }
            stream_set_blocking($this->output, false);
        }
        [$unsettled, $this->unsettled] = [$this->unsettled, []];
        return $unsettled;
    }

    /** Renews a lock until `drop`. It counts as lost if that does not succeed for its time to live. */
    public function holdLock(string $id, string $path, string $body, float $ttl): void
    {
        $this->hold($id, ['method' => 'PUT', 'path' => $path, 'body' => $body, 'every' => $ttl / 3, 'expires' => $ttl]);
    }

    /** Extends a lease or a lock no longer. */
    public function drop(string $id): void
    {
        unset($this->held[$id], $this->events[$id]);
        $this->say(['drop' => $id]);
    }

    /** Gives a job back that has not begun, unless that was done already. */
    public function giveBack(string $receipt): void
    {
        unset($this->held[$receipt], $this->events[$receipt]);
        $this->say(['give_back' => $receipt]);
    }

    /** `cancel` if somebody wants the job to end, `lost` if it is no longer ours, or null. Costs no request. */
    public function event(string $id): ?string
    {
        $this->receive();
        return $this->events[$id] ?? null;
    }

    /** After so many seconds, releases what is still held, and sends SIGTERM to this process; SIGKILL if it lives a second later. */
    public function stop(float $seconds): void
    {
        $this->say(['stop' => $seconds]);
    }

    /** Whether it has released what was held, because this process was to stop. */
    public function hasReleased(): bool
    {
        $this->receive();
        return $this->hasReleased;
    }

    /** @param array<string, mixed> $what */
    private function hold(string $id, array $what): void
    {
        $this->receive();
        unset($this->events[$id]);
        // The clock of `hrtime` is that of the machine, so the child knows how old this is when it reads it.
        $this->held[$id] = Json::encode(['hold' => $id, 'at' => Clock::now()] + $what) . "\n";
        if ($this->process === null || $this->pid !== getmypid()) {
            $this->begin();
        } elseif (!$this->write($this->held[$id])) {
            $this->end();
            $this->begin();
        }
    }

    /** @param array<string, mixed> $message */
    private function say(array $message): void
    {
        if ($this->process !== null && $this->pid === getmypid()) {
            $this->deliver(Json::encode($message) . "\n");
        }
    }

    /** To a new child if this one has died, such as by a signal to the whole group before it ignored that. */
    private function deliver(string $line): void
    {
        if (!$this->write($line)) {
            $this->end();
            $this->begin();
            $this->write($line);
        }
    }

    private function write(string $line): bool
    {
        try {
            return @fwrite($this->input, $line) === \strlen($line);
        } catch (\Throwable) {
            // A handler of the program that makes exceptions of silenced warnings, too.
            return false;
        }
    }

    private function begin(): void
    {
        $php = \in_array(\PHP_SAPI, ['cli', 'phpdbg'], true) ? \PHP_BINARY : \PHP_BINDIR . '/php';
        $pipes = [];
        $process = \function_exists('proc_open')
            ? proc_open([$php, '-d', 'display_errors=stderr', __DIR__ . '/keeper-process.php'], [['pipe', 'r'], ['pipe', 'w']], $pipes)
            : false;
        if ($process === false) {
            throw new \RuntimeException("leases cannot be extended: expected `proc_open` to start $php, got an error. Is it in `disable_functions`?");
        }
        /** @var array{resource, resource} $pipes */
        [$this->process, $this->input, $this->output, $this->pid, $this->received] = [$process, $pipes[0], $pipes[1], (int) getmypid(), ''];
        [$this->sync, $this->synced] = [0, 0];
        stream_set_blocking($this->output, false);
        $config = $this->transport->config() + ['parent' => $this->pid, 'healthFile' => $this->healthFile];
        $this->write(Json::encode($config) . "\n" . implode('', $this->held));
    }

    private function receive(): void
    {
        if ($this->process === null || $this->pid !== getmypid()) {
            return;
        }
        $this->received .= (string) fread($this->output, 65_536);
        while (($end = strpos($this->received, "\n")) !== false) {
            /** @var array{released?: true, sync?: int, id?: string, event?: string, code?: string, detail?: string} $message */
            $message = Json::decode(substr($this->received, 0, $end));
            $this->received = substr($this->received, $end + 1);
            if (isset($message['released'])) {
                $this->hasReleased = true;
            } elseif (isset($message['sync'])) {
                $this->synced = $message['sync'];
            } elseif (isset($message['id'], $message['code'], $message['detail'])) {
                $this->unsettled[] = ['id' => $message['id'], 'code' => $message['code'], 'detail' => $message['detail']];
            } elseif (isset($message['id'], $message['event']) && isset($this->held[$message['id']])) {
                $this->events[$message['id']] = $message['event'];
            }
        }
        if ($this->held !== [] && feof($this->output)) {
            $this->end();
            $this->begin();
        }
    }

    private function end(): void
    {
        if ($this->process !== null && $this->pid === getmypid()) {
            // A process that a handler has forked may keep its input open.
            $this->write("{\"end\":true}\n");
            array_map(fclose(...), [$this->input, $this->output]);
            proc_close($this->process);
        }
        $this->process = null;
    }
}
