// The canonical form of records and the command line that both Node clients share.
// Commands and the form of records: see interop/README.md.
import { createInterface } from 'node:readline'

export const PARTITIONS = 3
const LIMIT_MS = 120_000

const bytes = s => (s === null ? null : Buffer.from(s, 'base64'))
const text = b => (b === null || b === undefined ? null : Buffer.from(b).toString('base64'))

/** The batches on standard input: arrays of records with Buffers, headers as [name, Buffer or null]. */
export async function* batches() {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === '') continue
    yield JSON.parse(line).map(r => ({
      ...r,
      key: bytes(r.key),
      value: bytes(r.value),
      headers: r.headers.map(([name, value]) => [name, bytes(value)])
    }))
  }
}

export function print(v) {
  process.stdout.write(JSON.stringify(v) + '\n')
}

/** Prints a record that was read. Offset and timestamp may be strings, as 64-bit numbers often are in JavaScript. */
export function printRecord({ topic, partition, offset, timestamp, key, value, headers }) {
  print({
    topic,
    partition,
    offset: Number(offset),
    timestamp: Number(timestamp),
    key: text(key),
    value: text(value),
    headers: headers.map(([name, v]) => [name.toString(), text(v)])
  })
}

/** How members of a group behave, whatever their library; see interop/README.md. */
export const MEMBER = { sessionMs: 6000, rebalanceMs: 10_000, heartbeatMs: 1000, fetchMs: 300, workMs: 30 }

/** Prints a line of a member. Pipes are written synchronously: a process that is killed has told all it did. */
export function say(...words) {
  process.stdout.write(words.join(' ').replaceAll('\n', ' ') + '\n')
}

/** Runs the command named on the command line. A program that hangs ends with an error after LIMIT_MS. */
export async function main({ write, read, group, member }) {
  const [command, broker, ...rest] = process.argv.slice(2)
  if (command === 'member') return member(broker, ...rest).catch(fail)
  setTimeout(() => fail(new Error(`no end after ${LIMIT_MS} ms`)), LIMIT_MS).unref()
  try {
    if (command === 'write') await write(broker, ...rest)
    else if (command === 'read') await read(broker, Number(rest[0]), rest.slice(1))
    else if (command === 'group') await group(broker, Number(rest[0]), rest[1], rest[2])
    else throw new Error(`unknown command ${command}`)
  } catch (e) {
    fail(e)
  }
}

/** Ends the program with what went wrong: libraries wrap errors in errors, the innermost says most. */
function fail(e) {
  const tell = (e, depth) => {
    process.stderr.write(`${'  '.repeat(depth)}${e.name}: ${e.message}\n`)
    for (const inner of [e.cause, ...(e.errors ?? [])]) if (inner) tell(inner, depth + 1)
  }
  tell(e, 0)
  process.stderr.write(`${e.stack?.split('\n').slice(1, 4).join('\n')}\n`)
  process.exit(1)
}
