import os
import stat
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from filesizes import file_size_limit

from simloop.errors import ScenarioError
from simloop.trace.storage import create_folder, read_file, write_file


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[int]:
    """The reading end of the named pipe `pipe`."""
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refusal_to_write(path: Path, data: bytes = b"new") -> str:
    with pytest.raises(ScenarioError) as refused:
        write_file(path, data)
    return str(refused.value)


def refusal_to_read(path: Path) -> str:
    with pytest.raises(ScenarioError) as refused:
        read_file(path, 10)
    return str(refused.value)


class TestWriting:
    def test_a_new_file_has_the_permissions_of_any_new_file(self, tmp_path: Path) -> None:
        (tmp_path / "usual").touch()
        write_file(tmp_path / "a", b"new")
        assert (tmp_path / "a").read_bytes() == b"new"
        assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
        assert names(tmp_path) == ["a", "usual"]

    def test_a_replaced_file_keeps_its_permissions(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_text("old")
        path.chmod(0o640)
        write_file(path, b"new")
        assert path.read_bytes() == b"new"
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_whoever_has_the_old_file_open_goes_on_reading_it(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_text("old")
        with path.open() as opened:
            write_file(path, b"new")
            assert opened.read() == "old"

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_link_is_followed(self, tmp_path: Path, exists: bool) -> None:  # noqa: FBT001
        target, link = tmp_path / "folder" / "a", tmp_path / "link"
        target.parent.mkdir()
        if exists:
            target.write_text("old")
        link.symlink_to("folder/a")
        write_file(link, b"new")
        assert link.is_symlink()
        assert target.read_bytes() == b"new"
        assert names(tmp_path) == ["folder", "link"]

    def test_links_that_lead_to_each_other_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        assert "cannot be written: Too many levels of symbolic links" in refusal_to_write(
            tmp_path / "a"
        )

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        assert "a: cannot be written: this is no regular file" in refusal_to_write(tmp_path / "a")

    def test_a_name_that_no_file_can_have_is_refused(self, tmp_path: Path) -> None:
        assert "cannot be written: " in refusal_to_write(tmp_path / "a\0b")
        assert "cannot be written: File name too long" in refusal_to_write(tmp_path / ("a" * 300))

    def test_the_longest_name_can_be_written(self, tmp_path: Path) -> None:
        write_file(tmp_path / ("a" * 255), b"new")
        assert names(tmp_path) == ["a" * 255]


class TestAPipeOrADevice:
    def test_gets_the_data_and_stays_a_pipe(self, tmp_path: Path, reader: int) -> None:
        write_file(tmp_path / "pipe", b"new")
        assert os.read(reader, 100) == b"new"
        assert (tmp_path / "pipe").is_fifo()

    def test_is_refused_where_nobody_reads_it(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert "cannot be written: No such device or address" in refusal_to_write(tmp_path / "pipe")
        assert (tmp_path / "pipe").is_fifo()

    def test_gets_the_data_and_stays_a_device(self) -> None:
        controller, terminal = os.openpty()
        write_file(Path(os.ttyname(terminal)), b"new")
        assert os.read(controller, 100) == b"new"
        os.close(controller)
        os.close(terminal)

    def test_stays_a_device_when_it_is_full(self, tmp_path: Path) -> None:
        full = tmp_path / "full"
        try:
            os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))  # as /dev/full
        except PermissionError:
            pytest.skip("only root can make a device")
        assert "cannot be written: No space left on device (free some space)" in refusal_to_write(
            full
        )
        assert full.is_char_device()


class TestAWriteThatFailsHalfWay:
    def test_leaves_the_old_file_whole_and_nothing_else(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_text("old")
        with file_size_limit(1_000):
            refused = refusal_to_write(path, b"x" * 100_000)
        assert refused == f"{path}: cannot be written: File too large (free some space)"
        assert path.read_text() == "old"
        assert names(tmp_path) == ["a"]


class TestReading:
    def test_refuses_more_bytes_than_are_allowed(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"0123456789")
        assert read_file(tmp_path / "a", 10) == b"0123456789"
        (tmp_path / "a").write_bytes(b"0123456789a")
        assert refusal_to_read(tmp_path / "a").endswith("a: the file is over 10 bytes")

    def test_takes_the_memory_of_the_file_and_not_of_the_longest_one(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"0123456789")
        tracemalloc.start()
        try:
            read_file(tmp_path / "a", 2**30)
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()

    @pytest.mark.skipif(sys.platform != "linux", reason="files without a size")
    def test_reads_a_file_that_the_system_makes_as_it_is_read(self) -> None:
        assert b"Pid:" in read_file(Path("/proc/self/status"), 100_000)
        assert refusal_to_read(Path("/proc/self/status")).endswith("the file is over 10 bytes")

    def test_refuses_a_pipe_without_waiting_for_it(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert "this is no regular file" in refusal_to_read(tmp_path / "pipe")

    @pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/"])
    def test_refuses_devices_and_folders(self, path: str) -> None:
        assert refusal_to_read(Path(path)).startswith(f"{path}: this is no regular file")

    def test_refuses_what_is_not_there(self, tmp_path: Path) -> None:
        assert "a: cannot be read: No such file" in refusal_to_read(tmp_path / "a")
        assert "cannot be read: " in refusal_to_read(tmp_path / "a\0b")


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(ScenarioError, match="the folder cannot be created: "):
        create_folder(tmp_path / "a" / "b")
