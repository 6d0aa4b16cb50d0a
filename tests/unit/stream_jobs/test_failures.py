"""A failed query says what was wrong and what to do."""

from __future__ import annotations

from stream_jobs.app.jobs import explained

FOLDER = "/home/checkpoints/telemetry"


def test_the_innermost_cause_is_named_with_its_file_and_the_way_out() -> None:
    text = (
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.\n"
        "\tat org.apache.spark\nCaused by: org.apache.spark.SparkException: outer\n\tat x\n"
        "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/x/9_ab.changelog\n\tat y"
    )
    said = explained("telemetry", FOLDER, text)
    assert said.startswith(
        "query telemetry: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/x/9_ab."
    )
    assert "`odograph jobs reset telemetry`" in said
    assert str(FOLDER) in said


def test_a_full_disk_is_no_reason_to_reset_anything() -> None:
    said = explained("telemetry", FOLDER, "java.io.IOException: No space left on device\n\tat org.rocksdb")
    assert said.startswith("query telemetry: java.io.IOException: No space left on device")
    assert "free some space on the disks of /home/checkpoints/telemetry" in said
    assert "reset" not in said


def test_records_that_kafka_dropped_unread_are_named_and_the_way_on() -> None:
    text = (
        "Job aborted\nCaused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may "
        "have been lost; set the source option failOnDataLoss to false. Reason: Could not read records in "
        "offset [7, 9)\n\tat org.apache.spark\n"
        "Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position 7\n\tat x"
    )
    said = explained("telemetry", FOLDER, text)
    assert said.startswith("query telemetry: org.apache.kafka.clients.consumer.OffsetOutOfRangeException")
    assert "Kafka has dropped records, by its retention, that the query had not read" in said
    assert "`odograph jobs reset telemetry`" in said


def test_any_other_failure_is_told_by_its_first_lines_alone() -> None:
    assert explained("archive", FOLDER, "one\ntwo\nthree\nfour") == "query archive: one / two / three"
    assert explained("archive", FOLDER, None) == "query archive: ended without an error"
