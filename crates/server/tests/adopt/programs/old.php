<?php
// Delay queues as PHP projects have them: php old.php LAYOUT ROLE KEY PORT [FIRST COUNT [DSN]]
//
// A producer adds COUNT jobs, numbered from FIRST. A consumer runs what is due until its input ends. Each line says what is about to happen, or
// what has happened, so that a program that is killed leaves open only its last step:
//
//   putting N DUE, put N DUE     adds a job; DUE in milliseconds, or 0
//   moving N DUE, moved N DUE    reschedules it
//   cancelling N, cancelled N    or: unsure N, if it may have been too late
//   taking N, ran N
//   popping, popped              takes some job, or none
//   missed N                     what was begun came too late
//
// A lost connection ends a program.

[, $layout, $role, $key, $port] = $argv;
[$first, $count, $dsn] = [(int) ($argv[5] ?? 0), (int) ($argv[6] ?? 0), $argv[7] ?? ''];
$redis = new Redis();
$redis->connect('127.0.0.1', (int) $port);
stream_set_blocking(STDIN, false);

function isOver(): bool
{
    fread(STDIN, 1);
    return feof(STDIN);
}

function say(string $word, int|string ...$numbers): void
{
    fwrite(STDOUT, implode(' ', [$word, ...$numbers]) . "\n");
}

/** Adds a job that is not there. */
function add(Redis $redis, string $key, string $member, int $n, int $due): void
{
    say('putting', $n, $due * 1000);
    $redis->zAdd($key, $due, $member);
    say('put', $n, $due * 1000);
}

/** Reschedules a job, if it is still there. */
function move(Redis $redis, string $key, string $member, int $n, int $due): void
{
    say('moving', $n, $due * 1000);
    $redis->zAdd($key, ['XX', 'CH'], $due, $member) === 1 ? say('moved', $n, $due * 1000) : say('missed', $n);
}

function cancel(Redis $redis, string $key, string $member, int $n): void
{
    say('cancelling', $n);
    $redis->zRem($key, $member) === 1 ? say('cancelled', $n) : say('missed', $n);
}

/** A plain sorted set in seconds. A repeat reschedules; who is too late changes nothing. */
function produceZset(Redis $redis, string $key, int $first, int $count): void
{
    for ($n = $first; $n < $first + $count; $n++) {
        add($redis, $key, "order-$n", $n, time() + random_int(0, 3));
        $other = random_int(max($first, $n - 100), $n);
        match ($n % 4) {
            0 => move($redis, $key, "order-$other", $other, time() + random_int(0, 5)),
            1 => cancel($redis, $key, "order-$other", $other),
            default => null,
        };
    }
}

/** A consumer has what its zRem removed. */
function consumeZset(Redis $redis, string $key): void
{
    while (!isOver()) {
        foreach ($redis->zRangeByScore($key, '0', (string) time(), ['limit' => [0, 10]]) as $member) {
            $n = substr($member, strlen('order-'));
            say('taking', $n);
            say($redis->zRem($key, $member) === 1 ? 'ran' : 'missed', $n);
        }
    }
}

/** A set under a lock, a string beside it. */
function locked(Redis $redis, string $key, callable $work): void
{
    while (!$redis->setnx("Lock:$key", (string) getmypid())) {
        usleep(100);
    }
    $work();
    $redis->del("Lock:$key");
}

/** Seconds with a fraction. A repeat keeps the first. */
function produceLocked(Redis $redis, string $key, int $first, int $count): void
{
    for ($n = $first; $n < $first + $count; $n++) {
        $other = $n % 3 === 0 ? random_int(max($first, $n - 20), $n) : $n;
        foreach ([$n, $other] as $number) {
            locked($redis, $key, function () use ($redis, $key, $number) {
                $member = json_encode(['id' => "$number", 'to' => 'größe@example.com']);
                $due = (int) (microtime(true) * 1000) + random_int(0, 1000);
                say('putting', $number, $due);
                if ($redis->zScore($key, $member) === false) {
                    $redis->zAdd($key, $due / 1000, $member);
                    say('put', $number, $due);
                } else {
                    say('missed', $number);
                }
            });
        }
    }
}

/** A consumer reads what is due, and removes that range. */
function consumeLocked(Redis $redis, string $key): void
{
    while (!isOver()) {
        locked($redis, $key, function () use ($redis, $key) {
            $now = sprintf('%.3f', microtime(true));
            $due = array_map(fn ($member) => json_decode($member)->id, $redis->zRangeByScore($key, '0', $now));
            array_map(fn ($n) => say('taking', $n), $due);
            if ($redis->zRemRangeByScore($key, '0', $now) !== count($due)) {
                throw new LogicException('something else changed the set under the lock');
            }
            array_map(fn ($n) => say('ran', $n), $due);
        });
        usleep(1000);
    }
}

/** Rows and their ids. Those with another status than 1 are no jobs: a cancel may change the status, or remove the id. */
function produceTable(Redis $redis, string $key, int $first, int $count, PDO $rows): void
{
    $insert = $rows->prepare('INSERT INTO delay_queue (id, body, status) VALUES (?, ?, ?)');
    $update = $rows->prepare('UPDATE delay_queue SET status = 0 WHERE id = ?');
    $isJob = fn (int $n) => $n % 7 !== 0;
    for ($n = $first; $n < $first + $count; $n++) {
        $insert->execute([$n, "body $n", (int) $isJob($n)]);
        $due = time() + random_int(0, 2);
        $isJob($n) ? add($redis, $key, (string) $n, $n, $due) : $redis->zAdd($key, $due, (string) $n);
        $other = random_int(max($first, $n - 100), $n);
        if (!$isJob($other)) {
            continue;
        }
        match ($n % 5) {
            0 => move($redis, $key, (string) $other, $other, time() + random_int(0, 5)),
            1 => cancel($redis, $key, (string) $other, $other),
            2 => cancelRow($redis, $key, $other, $update),
            default => null,
        };
    }
}

/** It was in time if the id is still there afterwards. */
function cancelRow(Redis $redis, string $key, int $n, PDOStatement $update): void
{
    say('cancelling', $n);
    $update->execute([$n]);
    say($redis->zScore($key, (string) $n) === false ? 'unsure' : 'cancelled', $n);
}

/** The cron job runs what is due, and then removes it. */
function consumeTable(Redis $redis, string $key, PDO $rows): void
{
    $status = $rows->prepare('SELECT status FROM delay_queue WHERE id = ?');
    $ran = $rows->prepare('UPDATE delay_queue SET status = 2 WHERE id = ?');
    while (!isOver()) {
        foreach ($redis->zRangeByScore($key, '0', (string) time()) as $n) {
            $status->execute([$n]);
            if ((int) $status->fetchColumn() === 1) {
                say('taking', $n);
                $ran->execute([$n]);
                say('ran', $n);
                $redis->zRem($key, $n);
            }
        }
    }
}

/** message_queue: delayed jobs in a sorted set, ready ones in a list. */
function produceMessages(Redis $redis, string $key, int $first, int $count): void
{
    for ($n = $first; $n < $first + $count; $n++) {
        $job = json_encode(['job' => ['id' => "$n", 'attemps' => 0, 'data' => ['order' => "订单 $n"]]]);
        if ($n % 3 === 0) {
            say('putting', $n, 0);
            $redis->rPush("queue:$key:job", $job);
            say('put', $n, 0);
        } else {
            add($redis, "queue:$key:delay", $job, $n, time() + ($n % 3 === 1 ? random_int(6, 8) : 1000));
        }
    }
}

/** Its listener reads what is due, and then removes as many by rank. A worker notes what it runs. */
function listen(Redis $redis, string $key): void
{
    $id = fn (string $job) => json_decode($job)->job->id;
    while (!isOver()) {
        $due = $redis->zRangeByScore("queue:$key:delay", '-inf', (string) time());
        if ($due !== []) {
            array_map(fn ($job) => say('taking', $id($job)), $due);
            $redis->zRemRangeByRank("queue:$key:delay", 0, count($due) - 1);
            $redis->rPush("queue:$key:job", ...$due);
            array_map(fn ($job) => say('missed', $id($job)), $due);
        }
        say('popping');
        $job = $redis->lPop("queue:$key:job");
        if ($job === false) {
            say('popped');
            usleep(500);
        } else {
            say('taking', $id($job));
            $redis->zAdd("queue:$key:reserved", time() + 3600, $job);
            say('ran', $id($job));
            $redis->zRem("queue:$key:reserved", $job);
        }
    }
}

$rows = $dsn === '' ? null : new PDO($dsn, 'root', '', [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
try {
    match ("$layout $role") {
        'zset producer' => produceZset($redis, $key, $first, $count),
        'zset consumer' => consumeZset($redis, $key),
        'locked-set producer' => produceLocked($redis, $key, $first, $count),
        'locked-set consumer' => consumeLocked($redis, $key),
        'table-set producer' => produceTable($redis, $key, $first, $count, $rows),
        'table-set consumer' => consumeTable($redis, $key, $rows),
        'message-queue producer' => produceMessages($redis, $key, $first, $count),
        'message-queue consumer' => listen($redis, $key),
    };
} catch (RedisException) {
    exit(3);
}
