// The interop client on kafkajs.
import { randomUUID } from 'node:crypto'
import zlib from 'node:zlib'
import kafkajs from 'kafkajs'
import SnappyCodec from 'kafkajs-snappy'
import lz4 from 'lz4-napi'
import { MEMBER, batches, main, print, printRecord, say } from './canon.mjs'

const { AssignerProtocol, CompressionCodecs, CompressionTypes, Kafka, Partitioners, logLevel } = kafkajs

// kafkajs itself brings gzip only and leaves the other codecs to the application.
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrame(encoder.buffer),
  decompress: async buffer => lz4.decompressFrame(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zlib.zstdCompressSync(encoder.buffer),
  decompress: async buffer => zlib.zstdDecompressSync(buffer)
})

const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}

const connect = broker => new Kafka({ clientId: 'interop-kafkajs', brokers: [broker], logLevel: logLevel.ERROR })

async function write(broker, topic, codec) {
  const producer = connect(broker).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    createPartitioner: Partitioners.DefaultPartitioner
  })
  await producer.connect()
  for await (const batch of batches()) {
    const acks = await producer.send({
      topic,
      acks: -1,
      compression: codecs[codec],
      messages: batch.map(r => ({ ...r, timestamp: String(r.timestamp), headers: grouped(r.headers) }))
    })
    // The answer has one base offset per partition; the records of a partition follow it in order.
    const next = new Map(acks.map(a => [a.partition, Number(a.baseOffset)]))
    print(
      batch.map(({ partition }) => {
        const offset = next.get(partition)
        next.set(partition, offset + 1)
        return offset
      })
    )
  }
  await producer.disconnect()
}

/** Headers as kafkajs takes them: an object, with an array where a name repeats. */
function grouped(headers) {
  const out = {}
  for (const [name, value] of headers) {
    if (!(name in out)) out[name] = value
    else out[name] = [].concat(out[name], value)
  }
  return out
}

const flat = headers => Object.entries(headers).flatMap(([name, v]) => [].concat(v).map(x => [name, x]))

// kafkajs has no reading without a group: a group of its own that starts at the beginning and commits nothing.
async function read(broker, count, topics) {
  const consumer = connect(broker).consumer({ groupId: `read-${randomUUID()}`, maxWaitTimeInMs: 200 })
  await consume(consumer, topics, count * topics.length, false)
}

async function group(broker, count, groupId, topic) {
  const consumer = connect(broker).consumer({ groupId, maxWaitTimeInMs: 200 })
  await consume(consumer, [topic], count, true)
}

async function consume(consumer, topics, count, commit) {
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  const positions = new Map()
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer
      .run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        eachBatch: async ({ batch: { topic, partition, messages }, resolveOffset, heartbeat }) => {
          for (const m of messages) {
            if (count === 0) return
            printRecord({ topic, partition, ...m, headers: flat(m.headers) })
            resolveOffset(m.offset)
            positions.set(`${topic}/${partition}`, { topic, partition, offset: String(BigInt(m.offset) + 1n) })
            if (--count === 0) resolve()
          }
          await heartbeat()
        }
      })
      .catch(reject)
  })
  if (commit) await consumer.commitOffsets([...positions.values()])
  await consumer.disconnect()
}

// kafkajs brings no range assignor, but lets an application bring one: partitions of each topic in runs, members by their IDs.
const range = ({ cluster }) => ({
  name: 'range',
  version: 0,
  async assign({ members }) {
    const topics = new Map()
    for (const { memberId, memberMetadata } of members) {
      for (const topic of AssignerProtocol.MemberMetadata.decode(memberMetadata).topics) {
        topics.set(topic, [...(topics.get(topic) ?? []), memberId].sort())
      }
    }
    const assigned = new Map(members.map(({ memberId }) => [memberId, {}]))
    for (const [topic, ids] of topics) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map(m => m.partitionId).sort((a, b) => a - b)
      ids.forEach((id, i) => {
        const extra = partitions.length % ids.length
        const size = Math.floor(partitions.length / ids.length)
        const from = i * size + Math.min(i, extra)
        assigned.get(id)[topic] = partitions.slice(from, from + size + (i < extra ? 1 : 0))
      })
    }
    return [...assigned].map(([memberId, assignment]) => ({
      memberId,
      memberAssignment: AssignerProtocol.MemberAssignment.encode({ version: 0, assignment, userData: Buffer.alloc(0) })
    }))
  },
  protocol({ topics }) {
    return {
      name: 'range',
      metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) })
    }
  }
})

async function member(broker, groupId, topic) {
  const consumer = connect(broker).consumer({
    groupId,
    partitionAssigners: [range],
    sessionTimeout: MEMBER.sessionMs,
    rebalanceTimeout: MEMBER.rebalanceMs,
    heartbeatInterval: MEMBER.heartbeatMs,
    maxWaitTimeInMs: MEMBER.fetchMs,
    maxBytesPerPartition: 8192,
    retry: { retries: 20, maxRetryTime: 1000 }
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say('a', ...(payload.memberAssignment[topic] ?? [])))
  const ended = new Promise(resolve => process.stdin.on('end', resolve).resume())
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch: { partition, messages }, resolveOffset, heartbeat, isRunning, isStale }) => {
      if (messages.length === 0 || !isRunning() || isStale()) return
      for (const m of messages) {
        say('r', partition, m.offset, m.value)
        resolveOffset(m.offset)
      }
      const offset = String(BigInt(messages.at(-1).offset) + 1n)
      await new Promise(resolve => setTimeout(resolve, MEMBER.workMs))
      // While it stops, kafkajs drops commits without an error.
      if (!isRunning()) return say('x', 'stopping')
      try {
        await consumer.commitOffsets([{ topic, partition, offset }])
      } catch (e) {
        say('x', e.message)
        throw e
      }
      say('c', partition, offset)
      await heartbeat()
    }
  })
  await ended
  await consumer.disconnect()
  process.exit(0)
}

await main({ write, read, group, member })
