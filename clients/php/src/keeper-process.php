<?php

declare(strict_types=1);

// The child of `Keeper`. Its input has a line with the configuration, then a line for everything that is held or dropped.

use Duetime\{DuetimeError, Json, Transport};

require __DIR__ . '/autoload.php';

if (function_exists('pcntl_signal')) {
    // A terminal and a service manager send these to the whole group. The parent decides when this ends.
    foreach ([SIGINT, SIGTERM, SIGHUP] as $signal) {
        pcntl_signal($signal, SIG_IGN);
    }
}
$config = Json::decode((string) fgets(STDIN));
$transport = new Transport($config['servers'], $config['token'], ca: $config['ca']);
$isOrphan = static fn (): bool => function_exists('posix_getppid') && posix_getppid() !== $config['parent'];
$killParent = static function () use ($config): never {
    function_exists('posix_kill') ? posix_kill($config['parent'], 9) : exec("kill -9 {$config['parent']}");
    exit;
};
/** How long at most until this looks for its parent and touches the health file, in seconds. */
const LOOK = 5.0;

$held = [];
$stopAt = INF;
$text = '';
stream_set_blocking(STDIN, false);
for (;;) {
    $now = hrtime(true) / 1e9;
    $wait = max(0.0, min(LOOK, $stopAt - $now, ...array_map(static fn (array $one): float => min($one['due'], $one['limitAt']) - $now, array_values($held))));
    [$read, $none] = [[STDIN], null];
    if (stream_select($read, $none, $none, (int) $wait, (int) (fmod($wait, 1) * 1e6)) !== 0) {
        $part = fread(STDIN, 65_536);
        if ($part === false || ($part === '' && feof(STDIN))) {
            exit;
        }
        $text .= $part;
    }
    if ($isOrphan()) {
        exit;
    }
    $now = hrtime(true) / 1e9;
    while (($end = strpos($text, "\n")) !== false) {
        $message = Json::decode(substr($text, 0, $end));
        $text = substr($text, $end + 1);
        if (isset($message['hold'])) {
            $held[$message['hold']] = $message + ['due' => $now + $message['every'], 'since' => $now, 'limitAt' => $now + ($message['limit']['after'] ?? INF)];
        } elseif (isset($message['drop'])) {
            unset($held[$message['drop']]);
        } elseif (isset($message['stop'])) {
            $stopAt = $now + $message['stop'];
        }
    }
    if ($held === []) {
        $stopAt = INF;
    }
    if ($config['healthFile'] !== null && $held !== []) {
        touch($config['healthFile']);
    }
    foreach ($held as $id => $one) {
        $isLimit = $now >= $one['limitAt'];
        if ($isLimit || ($now >= $stopAt && isset($one['release']))) {
            try {
                $transport->call('POST', $isLimit ? $one['limit']['path'] : $one['release'], $isLimit ? $one['limit']['body'] : null, timeout: 2, deadline: 5);
            } catch (DuetimeError) {
                // Its lease expires.
            }
            $killParent();
        }
        if ($now < $one['due']) {
            continue;
        }
        $event = null;
        try {
            $timeout = min(5.0, $one['every']);
            $answer = $transport->call($one['method'], $one['path'], $one['body'], timeout: $timeout, deadline: $timeout, tries: count($transport->servers));
            [$held[$id]['due'], $held[$id]['since']] = [$now + $one['every'], $now];
            $event = $answer->fields['cancel_requested'] ?? false ? 'cancel' : null;
        } catch (DuetimeError $error) {
            $held[$id]['due'] = $now + min(0.5, $one['every']);
            if (!$error->isTransient() || $now - $one['since'] >= ($one['expires'] ?? INF)) {
                unset($held[$id]);
                $event = 'lost';
            }
        }
        if ($event !== null) {
            fwrite(STDOUT, Json::encode(['id' => $id, 'event' => $event]) . "\n");
        }
    }
}
