<?php
// Delay queues as PHP projects have them: php sets.php LAYOUT ROLE KEY PORT [COUNT [DSN]]
//
// A producer adds COUNT members and prints those that it has not cancelled. A consumer runs what is due until its input ends,
// and prints what it ran.

[, $layout, $role, $key, $port] = $argv;
$count = (int) ($argv[5] ?? 0);
$redis = new Redis();
$redis->connect('127.0.0.1', (int) $port);
stream_set_blocking(STDIN, false);

function isOver(): bool
{
    fread(STDIN, 1);
    return feof(STDIN);
}

function show(array $members): void
{
    foreach ($members as $member) {
        echo $member, "\n";
    }
}

/** A plain sorted set in seconds. A repeat reschedules; a consumer has what its zRem removed. */
function produceZset(Redis $redis, string $key, int $count): array
{
    $kept = [];
    for ($n = 0; $n < $count; $n++) {
        $member = 'order-' . getmypid() . "-$n";
        $redis->zAdd($key, time() + random_int(0, 2), $member);
        if ($n % 5 === 0) {
            $redis->zAdd($key, ['XX'], time() + random_int(0, 3), $member);
        }
        if ($n % 7 !== 0 || $redis->zRem($key, $member) === 0) {
            $kept[] = $member;
        }
    }
    return $kept;
}

function consumeZset(Redis $redis, string $key): array
{
    $ran = [];
    while (!isOver()) {
        foreach ($redis->zRangeByScore($key, '0', (string) time(), ['limit' => [0, 10]]) as $member) {
            if ($redis->zRem($key, $member) === 1) {
                $ran[] = $member;
            }
        }
    }
    return $ran;
}

/** A set under a lock, in seconds with a fraction. A repeat keeps the first; a consumer reads what is due, and removes that range. */
function locked(Redis $redis, string $key, callable $work): mixed
{
    while (!$redis->setnx("Lock:$key", (string) getmypid())) {
        usleep(100);
    }
    $done = $work();
    $redis->del("Lock:$key");
    return $done;
}

function produceLocked(Redis $redis, string $key, int $count): array
{
    $kept = [];
    for ($n = 0; $n < $count; $n++) {
        $kept[] = $member = json_encode(['id' => getmypid() . "-$n", 'to' => 'größe@example.com']);
        locked($redis, $key, function () use ($redis, $key, $member) {
            if ($redis->zScore($key, $member) === false) {
                $redis->zAdd($key, microtime(true) + random_int(0, 1000) / 1000, $member);
            }
        });
    }
    return $kept;
}

function consumeLocked(Redis $redis, string $key): array
{
    $ran = [];
    while (!isOver()) {
        $due = locked($redis, $key, function () use ($redis, $key) {
            $now = (string) microtime(true);
            $due = $redis->zRangeByScore($key, '0', $now);
            if ($redis->zRemRangeByScore($key, '0', $now) !== count($due)) {
                throw new RuntimeException('something else changed the set under the lock');
            }
            return $due;
        });
        array_push($ran, ...$due);
        usleep(1000);
    }
    return $ran;
}

/** Rows and their ids. Who cancels changes the row alone. */
function produceTable(Redis $redis, string $key, int $count, string $dsn): array
{
    $rows = new PDO($dsn, 'root', '', [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
    $rows->exec('CREATE TABLE IF NOT EXISTS delay_queue (id INT AUTO_INCREMENT PRIMARY KEY, body TEXT, status TINYINT DEFAULT 1)');
    $kept = [];
    for ($n = 0; $n < $count; $n++) {
        $isCancelled = $n % 7 === 0;
        $rows->prepare('INSERT INTO delay_queue (body, status) VALUES (?, ?)')->execute(["body $n", $isCancelled ? 0 : 1]);
        $id = $rows->lastInsertId();
        $redis->zAdd($key, time() + random_int(0, 2), $id);
        if (!$isCancelled) {
            $kept[] = $id;
        }
    }
    return $kept;
}

show(match ("$layout $role") {
    'zset producer' => produceZset($redis, $key, $count),
    'zset consumer' => consumeZset($redis, $key),
    'locked-set producer' => produceLocked($redis, $key, $count),
    'locked-set consumer' => consumeLocked($redis, $key),
    'table-set producer' => produceTable($redis, $key, $count, $argv[6]),
});
