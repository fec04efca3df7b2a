<?php
declare(strict_types=1);

// A demo of the client: `demo.php push`, then `demo.php work` (until SIGTERM), `demo.php lock`.
//
//     DUETIME_SERVER=http://127.0.0.1:7300 php demo.php push

require __DIR__ . '/Duetime.php';

const QUEUE = 'demo-php';

function push(Duetime $client): void
{
    $mail = ['kind' => 'mail.welcome', 'payload' => ['to' => 'Zoë'], 'delay' => '200ms', 'key' => 'welcome-1', 'tags' => ['demo', 'user:1']];
    echo 'welcome ', $client->push(QUEUE, $mail)['outcome'], "\n";
    // The same key again: there is still one job.
    echo 'welcome again ', $client->push(QUEUE, $mail)['outcome'], "\n";
    $client->push(QUEUE, ['kind' => 'mail.broken', 'payload' => ['to' => 'nobody'], 'tags' => ['demo']]);
    $client->push(QUEUE, ['kind' => 'report', 'payload' => ['seconds' => 6], 'tags' => ['demo']]);
    $reminder = $client->push(QUEUE, ['kind' => 'mail.reminder', 'payload' => null, 'delay' => '1h', 'tags' => ['demo']]);
    echo 'reminder ', $client->cancel($reminder['id']), "\n";
    refused(fn () => $client->push(QUEUE, ['payload' => 1, 'delay' => 'soon']));
}

function refused(callable $call): void
{
    try {
        $call();
    } catch (Problem $problem) {
        echo "refused {$problem->word} {$problem->status}\n";
    }
}

function handle(array $job, callable $keep): array
{
    echo "{$job['kind']}, attempt {$job['attempt']}: ", json_encode($job['payload']), "\n";
    if ($job['kind'] === 'mail.broken') {
        throw new FinalFailure('there is no such address');
    }
    if ($job['kind'] === 'report') {
        // Longer than the lease, which is extended meanwhile.
        $end = hrtime(true) + $job['payload']['seconds'] * 1e9;
        while (hrtime(true) < $end) {
            if (!$keep()) {
                throw new FinalFailure('it is no longer ours');
            }
            usleep(100_000);
        }
    }
    return ['done' => $job['kind']];
}

function lock(Duetime $client): void
{
    [$owner, $other] = ['demo-' . getmypid(), 'other-' . getmypid()];
    $held = $client->lock('demo-php', $owner, ['ttl' => '10s', 'wait' => '5s']);
    $again = $client->lock('demo-php', $owner, ['ttl' => '10s', 'fence' => $held['fence']]);
    echo 'renewed ', var_export($again['fence'] === $held['fence'], true), "\n";
    refused(fn () => $client->lock('demo-php', $other));
    $client->unlock('demo-php', $owner, $held['fence']);
    // Store the fence with what you write under a lock, so that a late holder can be refused.
    $next = $client->lock('demo-php', $other);
    echo 'fence grows ', var_export($next['fence'] > $held['fence'], true), "\n";
    $client->unlock('demo-php', $other, $next['fence']);
}

function untilStopped(Duetime $client): void
{
    $stopped = false;
    pcntl_async_signals(true);
    foreach ([SIGTERM, SIGINT] as $signal) {
        pcntl_signal($signal, function () use (&$stopped): void {
            $stopped = true;
        });
    }
    $client->work(QUEUE, handle(...), function () use (&$stopped): bool {
        return $stopped;
    }, 5);
    echo "stopped\n";
}

try {
    match ($argv[1] ?? '') {
        'push' => push(new Duetime()),
        'work' => untilStopped(new Duetime()),
        'lock' => lock(new Duetime()),
        default => exit("usage: demo.php push | work | lock\n"),
    };
} catch (Problem $problem) {
    fwrite(STDERR, $problem->getMessage() . "\n");
    exit(1);
}
