import contextlib
from typing import Annotated

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from incases import in_cases
from pydantic import TypeAdapter

from simloop.kernel.durations import (
    UNITS_NS,
    Lasting,
    Milliseconds,
    format_duration,
    rounded_duration,
)
from simloop.scenario.fields import duration

HUNDRED_YEARS_NS = 100 * 365 * 24 * UNITS_NS["h"]


@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("0s", 0),
        ("1ns", 1),
        ("250us", 250_000),
        ("120ms", 120_000_000),
        ("5.12s", 5_120_000_000),
        ("0.1s", 100_000_000),
        ("007s", 7_000_000_000),
        ("1.5m", 90_000_000_000),
        ("1h", 3_600_000_000_000),
        ("876000h", 876_000 * 3_600_000_000_000),
        ("0.000000001h", 3_600),
        ("87599.000000001h", 87_599 * 3_600_000_000_000 + 3_600),
    ],
)
def test_a_number_and_a_unit_are_read_exactly(written: str, nanoseconds: int) -> None:
    assert duration(written) == nanoseconds


@in_cases(
    [
        *("", "5", "s", "-1s", "+1s", "1 s", " 1s", "1s ", "5s\n", "1S", "1sec", "1d", "1e3s"),
        *(".5s", "5.s", "1,5s", "1m30s", "1_000ms", "\u0665s", "NaNs", "infs", "9" * 13 + "s"),
        *(True, None, ["5s"]),
    ],
    repr,
)
def test_what_is_no_number_and_unit_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match=r"a number and a unit .* such as 120ms"):
        duration(written)


@pytest.mark.parametrize("number", [5, 0.5, 0, -1])
def test_a_number_without_a_unit_is_refused_with_the_text_to_write(number: float) -> None:
    with pytest.raises(ValueError, match=rf"{number} has no unit: write '{number}s' or"):
        duration(number)


@pytest.mark.parametrize("written", ["0.5ns", "0.0001us", "1.000000001ms"])
def test_what_is_finer_than_a_nanosecond_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="finer than a nanosecond"):
        duration(written)


@pytest.mark.parametrize("written", ["876001h", "999999999999h", "999999999999.999999999h"])
def test_what_is_longer_than_anyone_waits_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="a hundred years"):
        duration(written)


@pytest.mark.parametrize(
    ("nanoseconds", "written"),
    [
        (0, "0s"),
        (999, "999ns"),
        (1_000, "1us"),
        (1_500, "1.5us"),
        (120_000_000, "120ms"),
        (999_999_999, "999.999999ms"),
        (5_120_000_000, "5.12s"),
        (100_000_000_000, "100s"),
        (3_600_000_000_000, "3600s"),
    ],
)
def test_it_is_written_in_the_largest_unit_that_it_fills(nanoseconds: int, written: str) -> None:
    assert format_duration(nanoseconds) == written


@given(st.integers(0, HUNDRED_YEARS_NS))
def test_what_is_written_reads_back_as_the_same(nanoseconds: int) -> None:
    assert duration(format_duration(nanoseconds)) == nanoseconds


@given(st.text(alphabet="0123456789.munsh \n-", max_size=24))
@example("5s\n")
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert duration(text) >= 0


@pytest.mark.parametrize(("value_ms", "written"), [(1, "1ms"), (1_500, "1.5s"), (0, "0s")])
def test_milliseconds_are_written_as_a_text_with_a_unit_and_read_from_it(
    value_ms: int, written: str
) -> None:
    adapter = TypeAdapter[int](Annotated[int, Lasting(0)])
    assert Milliseconds(value_ms).as_written() == written
    assert adapter.validate_json(f'"{written}"') == value_ms
    assert adapter.dump_json(value_ms) == f'"{written}"'.encode()


@pytest.mark.parametrize(
    ("nanoseconds", "two", "three"),
    [
        (0, "0 ns", "0 ns"),
        (0.4, "0 ns", "0 ns"),
        (21, "21 ns", "21 ns"),
        (-280.2, "-280 ns", "-280 ns"),
        (994, "990 ns", "994 ns"),
        (999.6, "1.0 us", "1.00 us"),
        (1_144, "1.1 us", "1.14 us"),
        (99_600, "100 us", "99.6 us"),
        (2_129_027, "2.1 ms", "2.13 ms"),
        (-33_333_333_333, "-33 s", "-33.3 s"),
        (3_600 * 10**9, "3,600 s", "3,600 s"),
    ],
)
def test_a_measured_time_has_the_digits_that_say_something(
    nanoseconds: float, two: str, three: str
) -> None:
    assert (rounded_duration(nanoseconds), rounded_duration(nanoseconds, 3)) == (two, three)
