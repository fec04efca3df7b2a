<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\Duration;
use Duetime\Error\Invalid;
use PHPUnit\Framework\TestCase;

final class DurationTest extends TestCase
{
    public function testForms(): void
    {
        self::assertSame('30s', Duration::text(30));
        self::assertSame('250ms', Duration::text(0.25));
        self::assertSame('251ms', Duration::text(0.2501), 'parts of a millisecond are rounded up');
        self::assertSame('290ms', Duration::text(0.29), 'binary fractions are not');
        self::assertSame('1h30m', Duration::text('1h30m'));
        self::assertSame('5400000ms', Duration::text(new \DateInterval('PT1H30M')));
        self::assertSame(93_784_005, Duration::milliseconds('1d2h3m4s5ms'));
        self::assertSame(1_500, Duration::milliseconds('1s500ms'));
        self::assertSame('2027-01-31T08:00:00.250+00:00', Duration::instant(new \DateTimeImmutable('2027-01-31T08:00:00.25Z')));
    }

    /** @dataProvider wrong */
    public function testRefuses(mixed $wrong): void
    {
        try {
            \is_string($wrong) ? Duration::milliseconds($wrong, 'ttl') : Duration::text($wrong, 'ttl');
            self::fail('it is accepted');
        } catch (Invalid $error) {
            self::assertSame('ttl', $error->field);
        }
    }

    /** @return list<array{mixed}> */
    public static function wrong(): array
    {
        return [[-1], [-0.5], [NAN], [INF], ['soon'], [''], ['1m2h']];
    }
}
