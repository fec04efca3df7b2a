<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\Json;
use PHPUnit\Framework\TestCase;

final class JsonTest extends TestCase
{
    public function testCutsExactTexts(): void
    {
        $members = Json::members(' { "a" : [1, {"x":"]}"}] , "b\"c":  1.50 ,"d":"\\\\","e":{},"f":null }');
        self::assertSame(['a' => '[1, {"x":"]}"}]', 'b"c' => '1.50', 'd' => '"\\\\"', 'e' => '{}', 'f' => 'null'], $members);
        self::assertSame(['12345678901234567890', '"[,"', '[]', '-1e3'], Json::elements('[12345678901234567890,"[,", [] ,-1e3]'));
        self::assertSame([], Json::members('{}'));
        self::assertSame([], Json::elements(' [ ] '));
    }

    public function testCutsWhatTheDecoderReads(): void
    {
        $seed = random_int(0, PHP_INT_MAX);
        mt_srand($seed);
        for ($round = 0; $round < 300; $round++) {
            $value = self::value(4);
            $text = json_encode(['before' => 1, 'value' => $value, 'after' => [2]], mt_rand(0, 1) ? JSON_PRETTY_PRINT : 0);
            $cut = Json::members((string) $text);
            self::assertSame(['before', 'value', 'after'], array_keys($cut), "seed $seed: $text");
            self::assertEquals($value, json_decode($cut['value'], false), "seed $seed: $text");
            $list = json_encode([$value, $value]);
            self::assertEquals([$value, $value], array_map('json_decode', Json::elements((string) $list)), "seed $seed: $list");
        }
    }

    public function testAMessageIsUtf8AndBounded(): void
    {
        self::assertSame("a\u{fffd}b", Json::message("a\xffb"));
        self::assertSame('中', Json::message('中'));
        self::assertLessThanOrEqual(65_536, strlen(Json::message(str_repeat("\xff", 100_000))));
        self::assertTrue(mb_check_encoding(Json::message(str_repeat('中', 50_000)), 'UTF-8'));
    }

    private static function value(int $depth): mixed
    {
        $text = implode('', array_map(static fn (): string => ['"', '\\', '{', ']', ',', ' ', '中', "\n", 'a'][mt_rand(0, 8)], range(0, mt_rand(0, 5))));
        return match (mt_rand(0, $depth > 0 ? 6 : 4)) {
            0 => mt_rand(-1000, 1000),
            1 => mt_rand(-1000, 1000) / 8,
            2 => $text,
            3 => null,
            4 => mt_rand(0, 1) === 1,
            5 => array_map(static fn (): mixed => self::value($depth - 1), range(1, mt_rand(1, 4))),
            6 => (object) [$text . 'k' => self::value($depth - 1), 'n' => self::value($depth - 1)],
        };
    }
}
