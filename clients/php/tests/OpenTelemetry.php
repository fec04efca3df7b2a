<?php

declare(strict_types=1);

namespace OpenTelemetry\API\Trace\Propagation;

/** As much of open-telemetry/api as the client calls. */
final class TraceContextPropagator
{
    public static ?string $current = null;
    private ?string $extracted = null;
    private ?string $before = null;

    public static function getInstance(): self
    {
        return new self();
    }

    /** @param array<string, string> $carrier */
    public function inject(array &$carrier): void
    {
        self::$current === null || $carrier['traceparent'] = self::$current;
    }

    /** @param array<string, string> $carrier */
    public function extract(array $carrier): self
    {
        $this->extracted = $carrier['traceparent'];
        return $this;
    }

    public function activate(): self
    {
        [$this->before, self::$current] = [self::$current, $this->extracted];
        return $this;
    }

    public function detach(): int
    {
        self::$current = $this->before;
        return 0;
    }
}
