// The interop client on @platformatic/kafka.
import { randomUUID } from 'node:crypto'
import { Consumer, MessagesStreamFallbackModes, MessagesStreamModes, ProduceAcks, Producer } from '@platformatic/kafka'
import { batches, main, print, printRecord } from './canon.mjs'

const connect = broker => ({ clientId: 'interop-platformatic', bootstrapBrokers: [broker] })

async function write(broker, topic, codec) {
  const producer = new Producer({ ...connect(broker), idempotent: true, acks: ProduceAcks.ALL, compression: codec })
  for await (const batch of batches()) {
    const { offsets } = await producer.send({
      messages: batch.map(({ partition, timestamp, key, value, headers }) => ({
        topic,
        partition,
        timestamp: BigInt(timestamp),
        key,
        value,
        // Each name is a Buffer of its own and so a key of its own: names may repeat and keep their order.
        headers: new Map(headers.map(([name, v]) => [Buffer.from(name), v]))
      }))
    })
    // The answer has one base offset per partition; the records of a partition follow it in order.
    const next = new Map(offsets.map(a => [a.partition, Number(a.offset)]))
    print(
      batch.map(({ partition }) => {
        const offset = next.get(partition)
        next.set(partition, offset + 1)
        return offset
      })
    )
  }
  await producer.close()
}

// The library has no reading without a group: a group of its own that starts at the beginning and commits nothing.
async function read(broker, count, topics) {
  await consume(broker, `read-${randomUUID()}`, MessagesStreamModes.EARLIEST, topics, count * topics.length, false)
}

async function group(broker, count, groupId, topic) {
  await consume(broker, groupId, MessagesStreamModes.COMMITTED, [topic], count, true)
}

async function consume(broker, groupId, mode, topics, count, commit) {
  const consumer = new Consumer({ ...connect(broker), groupId, autocommit: false, maxWaitTime: 200 })
  const stream = await consumer.consume({ topics, mode, fallbackMode: MessagesStreamFallbackModes.EARLIEST })
  const positions = new Map()
  for await (const m of stream) {
    printRecord({ ...m, headers: m.headerEntries })
    const { topic, partition, offset, leaderEpoch } = m
    positions.set(`${topic}/${partition}`, { topic, partition, offset: offset + 1n, leaderEpoch })
    if (--count === 0) break
  }
  if (commit) await consumer.commit({ offsets: [...positions.values()] })
  await consumer.close(true)
}

await main({ write, read, group })
