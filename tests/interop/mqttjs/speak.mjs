// MQTT.js for tests/interop: does what its second argument says, and prints what it hears as lines of JSON.
// The first argument is the folder whose node_modules has MQTT.js.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const mqtt = createRequire(process.argv[2] + "/")("mqtt");
const order = JSON.parse(process.argv[3]);

const say = (thing) => process.stdout.write(JSON.stringify(thing) + "\n");

const pairs = (properties) => {
  const found = [];
  for (const [name, values] of Object.entries(properties ?? {})) {
    for (const value of [values].flat()) found.push([name, value]);
  }
  return found;
};

const options = {
  protocolVersion: order.version,
  clientId: order.id,
  clean: !order.keep,
  reconnectPeriod: 0,
  connectTimeout: 10000,
};
if (order.keep && order.version === 5) options.properties = { sessionExpiryInterval: 300 };
if (order.will) options.will = { ...order.will, payload: Buffer.from(order.will.payload) };

const client = mqtt.connect(order.url, options);

client.on("error", (error) => {
  console.error(String(error));
  process.exit(1);
});

client.on("message", (topic, payload, packet) => {
  const user = pairs(packet.properties?.userProperties);
  say({ topic, payload: payload.toString(), qos: packet.qos, retain: packet.retain, user });
});

client.on("connect", async (connack) => {
  const properties = {};
  if (order.user.length) {
    properties.userProperties = {};
    for (const [name, value] of order.user) (properties.userProperties[name] ??= []).push(value);
  }
  if (order.do === "publish") {
    for (const payload of order.payloads) {
      await client.publishAsync(order.topic, payload, { qos: order.qos, retain: order.retain, properties });
    }
    await client.endAsync();
    return;
  }
  const granted = await client.subscribeAsync(order.topics, { qos: order.qos, properties });
  say({ ready: granted.map((each) => each.qos), session: connack.sessionPresent });
  createInterface({ input: process.stdin }).on("close", () => client.end());
});
