<?php

declare(strict_types=1);

namespace Duetime\Laravel;

use Duetime\Client;
use Illuminate\Queue\Connectors\ConnectorInterface;

/** Makes the queue of a connection with the driver `duetime`. */
final class DuetimeConnector implements ConnectorInterface
{
    /** @param array<mixed> $config see config/duetime.php */
    public function connect(array $config): DuetimeQueue
    {
        $timeout = (float) ($config['timeout'] ?? 5);
        $tries = (int) ($config['push_tries'] ?? 2);
        $text = static fn (string $name): ?string => isset($config[$name]) ? (string) $config[$name] : null;
        $client = new Client($text('server'), $text('token'), $timeout, pushDeadline: $timeout * $tries, pushTries: $tries, ca: $text('ca'));
        return new DuetimeQueue($client, (string) ($config['queue'] ?? 'default'), (float) ($config['lease'] ?? 60), (float) ($config['block_for'] ?? 0),
            (int) ($config['prefetch'] ?? 50), (bool) ($config['after_commit'] ?? false));
    }
}
