/**
 * Reads which parts of a request a sentence is about: images and files, or thinking. A request may be accepted without
 * these parts. Reads also whether the sentence is about the model: another one may accept the request. A sentence that
 * only mentions them costs one more request, so the words need not be exact.
 */
import { Format } from "../reasons/Format.ts"
import type { ErrorFacts } from "./ErrorFacts.ts"

/** Words for images and files of a conversation. */
const media = oneOf(
  "images?|imageurl|pictures?|photos?|screenshots?|pixels?|vision|pdfs?|png|jpe?g|gif|webp|heic|avif|bmp|tiff|svg",
  "pages?|documents?|files?|attachments?|audio|videos?|media|multi-?modal|mime|base64|inline_?data|blobs?"
)
const mediaInChinese = /图片|图像|圖片|照片|文件|文档|音频|视频|多模态/

/** Words for a file or an image that is not a part of the conversation, or that the model should make. */
const noMedia = oneOf(
  "json_object|json_schema|response_format|output_format|modalities|moderation|safety|policy|policies",
  "vector stores?|batch|fine-?tuning|generate|generated|generation"
)

/** Words for thinking, signatures and stored items of earlier answers. */
const thinking =
  /encrypted[_ ]content|decrypt|reasoning|thinking|signature|(?<![a-z])thoughts?(?![a-z])|\bitem (?:with id )?['"`]|['"`](?:rs|msg|fc|ws)_|following item|input\[\d+\]\.id/

/** The provider counts the images and files of a request, or their sizes together. */
const total =
  /too many|many-image|more than \d|at most|up to|maximum (?:number )?of|number of|\btotal|per (?:request|prompt|message|conversation)|\d \+ \d|in one request|pages/

/** The refusal is about what this model, or its endpoints at a router, can do. */
const model = /\bmodels?\b|\bendpoints? found|(?:n't|not) (?:currently |yet )?support/

const unfit = new Set([400, 404, 413, 415, 422])

/** True for a status with which a provider refuses the content of a request. */
export const isRefusal = ({ said, status }: ErrorFacts): boolean => {
  const decisive = said ?? status
  return decisive === undefined || unfit.has(decisive)
}

/** A malformed request, with the kinds of parts that the sentence is about. */
export const requestOf = (facts: ErrorFacts): Format => {
  if (!isRefusal(facts)) return plain
  const said = `${facts.codes.join(" ")} ${facts.text}`
  const isMedia = (media.test(said) || mediaInChinese.test(said)) && !noMedia.test(said)
  const isThinking = thinking.test(said)
  const isOfModel = model.test(facts.text)
  if (!isMedia && !isThinking && !isOfModel) return plain
  return new Format({
    side: "request",
    ...(isOfModel ? { model: true } : {}),
    ...(isMedia ? { media: true } : {}),
    ...(isMedia && total.test(said) ? { allMedia: true } : {}),
    ...(isThinking ? { thinking: true } : {})
  })
}

const plain = new Format({ side: "request" })

/** The provider refuses an image or a file. */
export const refusedMedia = ({ text }: ErrorFacts): Format =>
  new Format({ side: "request", media: true, ...(total.test(text) ? { allMedia: true } : {}) })

function oneOf(...words: ReadonlyArray<string>): RegExp {
  return new RegExp(`(?<![a-z])(?:${words.join("|")})(?![a-z])`)
}
