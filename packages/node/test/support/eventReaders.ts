/**
 * Readers of `/events` in a process of their own: `eventReaders.ts <port> <readers> <stalled> <events>`. Prints
 * `connected`, and when every reader that reads has all events, a line of JSON.
 */
import { connect } from "node:net"

const [port = 0, readers = 0, stalled = 0, events = 0] = process.argv.slice(2).map(Number)

let connected = 0
let done = 0
const bad: Array<string> = []

/** Numbers of the events in the order of arrival, read from a field of each. */
const read = (onAll: () => void) => {
  let rest = ""
  let next = 0
  return (chunk: string): void => {
    const frames = (rest + chunk).split("\n\n")
    rest = frames.pop() ?? ""
    for (const frame of frames) {
      const found = /"number":(\d+)/.exec(frame)?.[1]
      if (found === undefined) continue
      if (Number(found) !== next) bad.push(`${found} instead of ${next}`)
      next++
      if (next === events) onAll()
    }
  }
}

for (let i = 0; i < readers; i++) {
  const socket = connect(port, "127.0.0.1")
  socket.setEncoding("utf8")
  socket.write("GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
  let isFirst = true
  const onText = read(() => {
    if (++done === readers - stalled) {
      console.log(JSON.stringify({ at: Date.now(), readers: done, bad: bad.slice(0, 5) }))
    }
  })
  socket.on("error", () => {})
  socket.on("data", (text: string) => {
    onText(text)
    if (!isFirst) return
    isFirst = false
    // A reader that never reads again.
    if (i < stalled) socket.pause()
    if (++connected === readers) console.log("connected")
  })
}
