<?php

declare(strict_types=1);

namespace Duetime\Laravel\Facades;

use Illuminate\Support\Facades\Facade;

/**
 * @method static \Duetime\CancelOutcome cancel(string|object $key, ?string $queue = null, ?string $connection = null)
 * @method static array<string, int> cancelByTag(string $tag, ?string $queue = null, ?string $connection = null)
 * @method static \Duetime\Client client(?string $connection = null)
 */
final class Duetime extends Facade
{
    protected static function getFacadeAccessor(): string
    {
        return \Duetime\Laravel\Duetime::class;
    }
}
