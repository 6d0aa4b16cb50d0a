"""Users' queries on the stream: what a file may say, and what Spark and the table make of it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import stream_jobs
from infra.contract.errors import ConfigError
from infra.contract.verdict import ClockLimits
from infra.settings.settings import Settings
from stream_jobs.user_sql.queries import (
    check,
    columns_of,
    frames_of,
    least_watermark_s,
    read_file,
    read_folder,
    refuse_doubles,
)
from tests.support_frames import frame

T0 = 1_767_225_600_000
LIMITS = ClockLimits(floor_ms=1_420_070_400_000, ahead_ms=10_000, lateness_ms=30_000)
EXAMPLES = Path(stream_jobs.__file__).parent / "sql_examples"
HEAD = "-- over: frames\n-- key: vehicle_id, seq\n"
GROUPED = "SELECT vehicle_id, max(seq) AS seq FROM frames GROUP BY vehicle_id, window(event_time, '1 minute')"


def written(folder: Path, text: str, name: str = "mine.sql") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-- key: a\nSELECT 1", "line 1: `-- over: frames | samples` is missing"),
        ("-- over: frame\n-- key: a\nSELECT 1", "line 1: `over` is 'frame', none of frames, samples"),
        ("-- over: frames\nSELECT 1", "line 1: `-- key: column, column` is missing"),
        ("-- over: frames\n-- key: a, B c\nSELECT 1", "line 2: `key`: 'B c' is no name of a column"),
        ("-- over: frames\n-- kye: a\nSELECT 1", "line 2: `kye` is unknown; known: over, key,"),
        (HEAD + "-- watermark_s: 5\nSELECT 1", "line 3: `watermark_s` is '5', not whole seconds from 60 on"),
        (HEAD + "DROP TABLE x", "must be one statement that begins with SELECT or WITH"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"SQL on the stream, .*mine\.sql") as error:
        read_file(written(tmp_path, text), 60)
    assert said in str(error.value)


def test_the_least_delay_holds_all_that_is_in_time_and_partitions_that_lie_apart() -> None:
    assert least_watermark_s(Settings()) == 60
    short = Settings(jobs={"lateness_s": 5, "ahead_s": 4, "receipt_skew_s": 1})  # type: ignore[arg-type]
    assert least_watermark_s(short) == 13


def test_the_version_follows_the_statement_and_not_its_remarks(tmp_path: Path) -> None:
    first = read_file(written(tmp_path, HEAD + "SELECT seq FROM frames"), 60)
    same = read_file(written(tmp_path, "-- About it.\n" + HEAD + "SELECT seq\nFROM frames;\n"), 60)
    other = read_file(written(tmp_path, HEAD + "SELECT seq + 1 FROM frames"), 60)
    assert first.version == same.version != other.version
    quoted = [
        read_file(written(tmp_path, f"{HEAD}SELECT seq, '{text}' AS a, gear FROM frames -- {text}"), 60)
        for text in ("it''s --a", "it''s --b")
    ]
    assert quoted[0].version != quoted[1].version
    assert quoted[0].reads(("speed_kmh", "gear", "seq")) == ("gear", "seq")
    assert first.reads(("speed_kmh", "gear")) == ()
    for words in ("*\n", "DISTINCT *", "seq, *", "to_json(struct(*)) AS a"):
        whole = read_file(written(tmp_path, f"{HEAD}SELECT {words} FROM frames"), 60)
        assert whole.reads(("gear",)) == ("gear",), words


def test_the_stage_gives_frames_in_time_with_whole_arrays_and_nothing_impossible() -> None:
    payload = frame(1, 0, T0, n=3) | {
        "speed_kmh": [10, 300],
        "lat_deg": [0, 0.001, 0],
        "lon_deg": [0, 11.5, 11.5],
    }
    payloads = [payload | {"coolant_temp_c": 90.04}, frame(1, 1, 0, n=3), frame(1, 2, T0 - 60_000, n=3)]
    payloads.append(payload | {"seq": 3})  # under another vehicle's key
    batch = pa.RecordBatch.from_pydict(
        {
            "key": [*([payload["vehicle_id"].encode()] * 3), b"1HGCM82633A004353"],
            "received_ms": pa.array([T0 + 1000] * 4, pa.int64()),
            "value": pa.array([orjson.dumps(p) for p in payloads], pa.binary()),
        }
    )
    (found,) = frames_of([batch], ("speed_kmh", "lat_deg", "coolant_temp_c"), LIMITS)
    rows = found.to_pylist()
    assert [(r["seq"], r["speed_kmh"], r["lat_deg"], r["coolant_temp_c"]) for r in rows] == [
        (0, [10.0, None, None], [None, 0.001, 0.0], 90.04)
    ]


def test_the_shipped_examples_are_sound(spark: SparkSession) -> None:
    found = {d.name: columns_of(d, check(spark, d, LIMITS)) for d in read_folder(EXAMPLES, 60)}
    assert found["time_by_speed"] == {
        "minute": "timestamp with time zone",
        "from_kmh": "integer",
        "time_s": "double precision",
        "vehicles": "bigint",
    }
    assert set(found) == {"time_by_speed", "cold_revving"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "SELECT vehicle_id,\n  sped AS seq FROM frames", "line 4: [UNRESOLVED_COLUMN"),
        (HEAD + "SELECT vehicle_id,, seq FROM frames", "line 3: [PARSE_SYNTAX_ERROR]"),
        (HEAD + "SELECT vehicle_id, seq, speed_kmh FROM frames", "`speed_kmh` is a array<double>"),
        (HEAD + "SELECT vehicle_id FROM frames", "`key`: seq is no column of the SELECT (vehicle_id)"),
        (HEAD + "SELECT 'x' AS vehicle_id, 1 AS seq", "does not read the view frames"),
        (HEAD + GROUPED.replace("max(seq)", "window") + "", "take seq.start AS seq_start instead"),
        (HEAD + GROUPED + " ORDER BY 1", "Sorting is not supported"),
        (HEAD + GROUPED + "; DROP TABLE x", "line 3: [PARSE_SYNTAX_ERROR]"),
    ],
)
def test_what_spark_or_the_table_cannot_take_is_refused_with_its_place(
    spark: SparkSession, tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=r"mine\.sql") as error:
        check(spark, read_file(written(tmp_path, text), 60), LIMITS)
    assert said in str(error.value)


HOSTILE = (
    "WITH t AS (SELECT seq FROM frames) INSERT OVERWRITE DIRECTORY '{out}' USING csv SELECT * FROM t",
    "WITH t AS (SELECT 1) INSERT OVERWRITE LOCAL DIRECTORY '{out}' USING csv SELECT * FROM t",
    "WITH t AS (SELECT 1 AS a) FROM t INSERT INTO x SELECT a INSERT INTO y SELECT a",
    "SELECT vehicle_id, reflect('java.io.File', 'createTempFile', 'a', 'b') AS seq FROM frames",
    "SELECT vehicle_id, java_method('java.lang.System', 'exit', 1) AS seq FROM frames",
    "SELECT vehicle_id, try_reflect('java.lang.System', 'getenv', 'HOME') AS seq FROM frames",
    "SELECT vehicle_id, system.builtin.reflect('a', 'b') AS seq FROM frames",
    "SELECT vehicle_id, IDENTIFIER('reflect')('a', 'b') AS seq FROM frames",
    "SELECT vehicle_id, seq FROM frames WHERE reflect('a', 'b') IS NULL",
    "SELECT vehicle_id, max(seq) AS seq FROM frames GROUP BY vehicle_id HAVING max(reflect('a', 'b')) > ''",
    "SELECT vehicle_id, max(seq) AS seq FROM frames GROUP BY GROUPING SETS ((vehicle_id, reflect('a', 'b')))",
    "SELECT vehicle_id, count(*) FILTER (WHERE reflect('a') > '') AS seq FROM frames GROUP BY vehicle_id",
    "SELECT vehicle_id, transform(speed_kmh, x -> reflect('a', 'b'))[0] AS seq FROM frames",
    "SELECT vehicle_id, count(*) OVER w AS seq FROM frames WINDOW w AS (PARTITION BY reflect('a', 'b'))",
    "SELECT vehicle_id, CASE WHEN seq IN (SELECT reflect('a', 'b')) THEN 1 END AS seq FROM frames",
    "SELECT vehicle_id, v AS seq FROM frames LATERAL VIEW explode(array(reflect('a', 'b'))) t AS v",
    "SELECT vehicle_id, f.seq FROM frames f JOIN frames g ON f.seq = reflect('a', 'b')",
    "SELECT vehicle_id, seq FROM frames, LATERAL (SELECT reflect('a', 'b'))",
    "SELECT vehicle_id, seq FROM frames JOIN (VALUES (reflect('a', 'b'))) AS v(x)",
    "SELECT vehicle_id, (SELECT count(*) FROM text.`{secret}`) AS seq FROM frames",
    "SELECT vehicle_id, seq FROM frames JOIN parquet.`{secret}`",
    "SELECT vehicle_id, seq FROM frames JOIN IDENTIFIER('text.`{secret}`')",
    "SELECT vehicle_id, seq FROM frames WHERE EXISTS (SELECT 1 FROM csv.`{secret}`)",
    "WITH t AS (SELECT * FROM binaryFile.`{secret}`) SELECT vehicle_id, seq FROM frames JOIN t",
    "WITH a AS (WITH b AS (SELECT * FROM json.`{secret}`) SELECT * FROM b) SELECT seq FROM frames, a",
    "SELECT vehicle_id, seq FROM frames UNION ALL SELECT value, 1 FROM text.`{secret}`",
    "SELECT seq FROM (SELECT TRANSFORM(seq) USING 'touch {out}' AS (seq, vehicle_id) FROM frames)",
    "SELECT vehicle_id, seq FROM frames JOIN samples",
    "SELECT vehicle_id, seq FROM (WITH t AS (SELECT 1) SELECT * FROM frames), t",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT vehicle_id, seq FROM frames, a",
    "SELECT vehicle_id, seq FROM frames JOIN spark_catalog.default.t",
    "SELECT vehicle_id, seq FROM frames JOIN global_temp.t",
    "SELECT vehicle_id, seq FROM frames JOIN information_schema.tables",
    "SELECT vehicle_id, seq FROM frames WITH ('path' = '{secret}')",
    "SELECT vehicle_id, seq FROM STREAM text.`{secret}`",
    "SELECT vehicle_id, seq FROM frames VERSION AS OF 1",
    "SELECT vehicle_id, id AS seq FROM frames JOIN range(3)",
    "SELECT vehicle_id, seq FROM frames JOIN read_files('{secret}')",
    "SELECT vehicle_id, seq FROM frames JOIN sql_keywords()",
    "SELECT /*+ REPARTITION(9000) */ vehicle_id, seq FROM frames",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n AS seq FROM frames, t",
    "SELECT vehicle_id, input_file_name() AS seq FROM frames",
    "SELECT vehicle_id, version() AS seq FROM frames",
    "SELECT vehicle_id, current_user() AS seq FROM frames",
    "SELECT vehicle_id, current_user AS seq FROM frames",
    "SELECT vehicle_id, from_protobuf(CAST('' AS BINARY), 'M', '{secret}') AS seq FROM frames",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '{secret}')) AS seq FROM frames",
    "SELECT from_avro(CAST('' AS BINARY), '', map('avroSchemaUrl', '{secret}')) AS seq FROM frames",
    "SELECT vehicle_id, xpath_string('<a/>', 'a') AS seq FROM frames",
    "SELECT vehicle_id, raise_error('x') AS seq FROM frames",
    "SELECT vehicle_id, my_function(seq) AS seq FROM frames",
    "SELECT vehicle_id, :a AS seq FROM frames",
)  # fmt: skip


def test_nothing_runs_that_is_not_one_select_over_the_view(spark: SparkSession, tmp_path: Path) -> None:
    secret, out = tmp_path / "secret.txt", tmp_path / "out"
    secret.write_text("secret")
    spark.createDataFrame([(1,)], "seq int").createOrReplaceTempView("samples")
    for statement in HOSTILE:
        path = written(tmp_path, HEAD + statement.format(out=out, secret=secret))
        with pytest.raises(ConfigError, match=r"mine\.sql, line 3: [^\[]"):  # not Spark's [ERROR_CLASS]
            check(spark, read_file(path, 60), LIMITS)
    assert {path.name for path in tmp_path.iterdir()} == {"secret.txt", "mine.sql"}


def test_what_a_select_over_the_view_needs_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    statement = """WITH f(vehicle, n) AS (SELECT vehicle_id, seq FROM Frames WHERE array_max(speed_kmh) > 3)
    SELECT vehicle AS vehicle_id, n AS seq, '${env:HOME}' AS plain, typed.word, x.v,
           aggregate(array(1, 2), 0, (a, b) -> a + b) AS sum, interval 1 day > interval 1 hour AS longer
    FROM f JOIN (VALUES ('car', 1)) AS typed(word, number) ON number <> n
    LATERAL VIEW explode(array(1)) x AS v WHERE n IN (SELECT 1) OR n IS NULL"""
    schema = check(spark, read_file(written(tmp_path, HEAD + statement), 60), LIMITS)
    assert schema.names == ["vehicle_id", "seq", "plain", "word", "v", "sum", "longer"]
    assert spark.sql("SELECT '${env:HOME}'").head()[0] == "${env:HOME}"


def test_a_columns_name_that_postgresql_would_cut_is_refused(tmp_path: Path) -> None:
    definition = read_file(written(tmp_path, HEAD + GROUPED), 60)
    schema = T.StructType([T.StructField("ä" * 32, T.LongType())])
    with pytest.raises(ConfigError, match="name it by `AS name`"):
        columns_of(definition, schema)


def test_two_rows_of_a_batch_with_one_key_are_refused(tmp_path: Path) -> None:
    definition = read_file(written(tmp_path, HEAD + "SELECT vehicle_id, seq, gear FROM frames"), 60)
    rows = pa.table({"vehicle_id": ["a", "a", None], "seq": [1, 1, None], "gear": [1, 2, 3]})
    refuse_doubles(definition, rows.slice(1))
    with pytest.raises(ConfigError, match=r"`key` \(vehicle_id, seq\) does not tell rows apart: 1"):
        refuse_doubles(definition, rows)
