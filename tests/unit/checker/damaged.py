"""Texts that are damaged in one place: what each reader says of them is recorded word for word."""

from __future__ import annotations

from typing import Final

H: Final = '{"history":1,"params":{"nodes":3}}\n'
A: Final = '{"time_ns":1,"process":"a","type":"invoke","f":"acquire"}\n'
B: Final = '{"time_ns":2,"process":"a","type":"ok","f":"acquire"}\n'
EH: Final = '; history 1 {"nodes" 3}\n'
EA: Final = "{:type :invoke, :f :acquire, :process 0}\n"
EB: Final = "{:type :ok, :f :acquire, :process 0}\n"
"""A history of one acquire, in JSON Lines and in EDN: header, invocation, completion."""

DAMAGED: Final[tuple[tuple[str, str], ...]] = (
    # json lines
    ("jsonl", '{"history":2}\n'),
    ("jsonl", '{"history":"1"}\n'),
    ("jsonl", '{"history":1,"params":{"nods":3}}\n'),
    ("jsonl", '{"history":1,"params":{"model":"mutexx"}}\n'),
    ("jsonl", '{"history":1,"params":{"nodes":"3"}}\n'),
    ("jsonl", '{"history":1,"complete":"perhaps"}\n'),
    ("jsonl", '{"history":1}{}\n'),
    ("jsonl", ' {"history":1}\n[1]\n' + A),
    ("jsonl", '{"history"\n'),
    ("jsonl", H + A.replace('"time_ns":1,', "") + B),
    ("jsonl", H + A.replace("invoke", "started") + B),
    ("jsonl", H + A.replace('"f":', '"g":') + B),
    ("jsonl", H + A.replace('"f":', '"ff":"x","f":') + B),
    ("jsonl", H + A.replace('"f":', '"tim_ns":"x","f":') + B),
    ("jsonl", H + A.replace('"a"', "7") + B),
    ("jsonl", H + A.replace('"a"', '{"name":"' + "x" * 60 + '"}') + B),
    ("jsonl", H + A.replace("}", ',"entries":[[1,2,3,4],[1,"v","w"]]}') + B),
    ("jsonl", H + A.replace("}", ',"targets":["A",5]}') + B),
    ("jsonl", H + A.replace("}", ',"receipt":[1]}') + B),
    ("jsonl", H + A.replace("}", "") + B),
    (
        "jsonl",
        H
        + "\n\n"
        + A
        + "  \n"
        + "nonsense that is longer than sixty characters so that it has to be cut\n"
        + B,
    ),
    ("jsonl", H + "nonsense that is exactly sixty characters long, which is kept\n" + B),
    ("jsonl", A.replace("}", ',"index":0}') + B.replace("}", ',"index":2}')),
    ("jsonl", A.replace("}", ',"index":3}') + B.replace("}", ',"index":4}')),
    ("jsonl", H + B + A),
    ("jsonl", H + A + A + B),
    ("jsonl", H + A + B.replace("acquire", "release") + A),
    ("jsonl", H + A + B + '{"end":true}'),
    ("jsonl", H + A + B + '{"end":true,"events":"2"}\n'),
    ("jsonl", H + A + B + '{"end":true,"events":3}\n'),
    ("jsonl", H + A + B + '{"end":true,"events":2,"digest":"sha256:00"}\n'),
    ("jsonl", H + A + B + '{"end":true,"events":2,"more":1}\n'),
    ("jsonl", A + B + '{"end":true,"events":2}\n'),
    ("jsonl", H + A + B + '{"end":false,"events":2}\n'),
    ("jsonl", H + A + '{"end":true,"events":1}\n' + B),
    ("jsonl", H + A.replace('"time_ns":1', f'"time_ns":{2**61 + 1}') + B),
    ("jsonl", H + A.replace('"time_ns":1', f'"time_ns":{2**70}') + B),
    ("jsonl", H + A.replace("}", ',"ttl_ns":-1}') + B),
    ("jsonl", H + A.replace("}", f',"ttl_ns":{2**62}}}') + B),
    ("jsonl", H + A.replace("}", ',"value":[1,2,3]}') + B),
    ("jsonl", H + A.replace("}", ',"value":{"a":1}}') + B),
    ("jsonl", H + A.replace("}", ',"value":true}') + B),
    ("jsonl", H + A.replace("}", ',"value":1.5}') + B),
    ("jsonl", H + A.replace("}", f',"value":{2**64}}}') + B),
    ("jsonl", H + A.replace('"a"', '"nemesis"') + B),
    ("jsonl", H + '{"time_ns":1,"process":"nemesis","type":"ok","f":"jump","fault_id":"x"}\n' + B),
    ("jsonl", H + '{"time_ns":1,"process":"nemesis","type":"invoke","f":"jump"}\n' + B),
    ("jsonl", H + '{"time_ns":1,"process":"lab","type":"info","f":"stall"}\n' + A + B),
    ("jsonl", H + f'{{"time_ns":{2**62},"process":"lab","type":"info","f":"phase"}}\n' + A + B),
    # edn
    ("edn", EA + EB.replace(":process", "")),
    ("edn", EA.replace(":process", ":proces") + EB),
    ("edn", EA.replace(":type :invoke, ", "") + EB),
    ("edn", EA.replace(":invoke", ":begun") + EB),
    ("edn", EA.replace(":f :acquire", ":f 7") + EB),
    ("edn", EA + EB.replace(":process 0", ':process 0, :time "x"')),
    ("edn", EA + EB.replace(":process 0", ":process 0, :time 1.5")),
    ("edn", EA + EB.replace(":process 0", ":process 0, :ttl-ns [1 2]")),
    ("edn", EA + EB.replace(":process 0", ":process 0, :index 7")),
    ("edn", EA + EB.replace(":process 0", ":process 0, :index 1")),
    ("edn", EH + EA + EB.replace(":process 0", ":process 0, :index 7")),
    ("edn", EA + "7\n" + EB),
    ("edn", EA + "{:type}\n" + EB),
    ("edn", EA + "}\n" + EB),
    ("edn", EA + "{:type (:ok]}\n" + EB),
    ("edn", EA + '{:type "ok\n' + EB),
    ("edn", EA + EB + "{:type :ok"),
    ("edn", EA + EB + "[1 2"),
    ("edn", EA + "[" * 101 + "]" * 101),
    ("edn", EA + EB.replace(":process 0", ":process 0 :x " + "[" * 99 + "]" * 99)),
    ("edn", EA + EB.replace(":process 0", ":process 0 :x " + "[" * 100 + "]" * 100)),
    ("edn", EA + EB.replace(":process 0", ":process 0 :x " + "9" * 1001)),
    ("edn", EA + EB.replace(":process 0", ":process 0 :x " + "9" * 1000)),
    ("edn", "{:type :invoke, :f :cas, :process 0, :value 7}\n"),
    ("edn", "{:type :invoke, :f :cas, :process 0, :value [1 2 3]}\n"),
    (
        "edn",
        "{:type :invoke, :f :cas, :process 0, :value [1 [2 3]]}\n"
        "{:type :ok, :f :cas, :process 0, :value 9}\n",
    ),
    ("edn", EB + EA),
    ("edn", EA + EA),
    ("edn", EA + EB.replace("acquire", "release")),
    ("edn", "; history 1 7\n" + EA + EB),
    ("edn", '; history 1 {"nods" 3}\n' + EA + EB),
    ("edn", '; history 1 {"nodes" 3} {}\n' + EA + EB),
    ("edn", '; history 1 {"complete" "perhaps"}\n' + EA + EB),
    ("edn", '; history 1 {"nodes" 3, "complete" "damaged"}\n' + EA + EB),
    ("edn", EH + EA + EB),
    ("edn", EH + EA + EB + "{:type"),
    ("edn", EH + EA + EB + '; end {"events" 2}\n'),
    ("edn", EH + EA + EB + "; end 7\n"),
    ("edn", EH + EA + EB + '; end {"events" 2, "digest" "sha256:00"}\n'),
    ("edn", EA + EB + '; end {"events" 2, "digest" "sha256:00"}\n'),
    ("edn", EA.replace("0", str(2**61 + 1)).replace(":process", ":time 5, :process") + EB),
    ("edn", EA.replace("}", f", :time {2**61 + 1}}}") + EB),
    ("edn", EA.replace("}", f", :time {2**70}}}") + EB),
    # jepsen logs
    ("jepsen-log", ""),
    ("jepsen-log", "INFO jepsen.core - nothing\n"),
    ("jepsen-log", "INFO  jepsen.util - 0\t:invoke\t:read\tnil\nINFO  jepsen.util - :ok\n"),
    (
        "jepsen-log",
        "INFO  jepsen.util - 0\t:invoke\t:read\tnil\n\nINFO  jepsen.util - 0\t:ok\t:read\t[1 2 3\n",
    ),
    (
        "jepsen-log",
        "INFO  jepsen.util - 0\t:invoke\t:read\tnil\n\nINFO  jepsen.util - 0\t:ok\t:read\t1 :b 2\n",
    ),
    ("jepsen-log", "x\nINFO  jepsen.util - 0\t:invoke\t:cas\t7\n"),
    ("jepsen-log", "x\nINFO  jepsen.util - 0\t:ok\t:read\t7\n"),
    (
        "jepsen-log",
        "x\nINFO  jepsen.util - start\t:invoke\t:read\t7\nINFO  jepsen.util - start\t:invoke\t:read\t7\n",
    ),
    (
        "jepsen-log",
        "INFO  jepsen.util - 0\t:invoke\t:acquire\tnil\ny\nINFO  jepsen.util - 0\t:ok\t:release\tnil\n",
    ),
)
