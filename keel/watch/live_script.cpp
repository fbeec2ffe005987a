#include "keel/watch/live_page.h"

namespace keel {

const char* live_style() {
  return R"css(
.watch{position:sticky;top:0;z-index:4;display:flex;flex-wrap:wrap;gap:4px 18px;align-items:center;padding:7px 24px;
background:var(--card);border-bottom:1px solid var(--rule);font-size:13.5px}
.watch .runs{flex:1;display:flex;flex-wrap:wrap;gap:2px 22px;min-width:0}
.watch p{margin:0;overflow-wrap:anywhere}.watch label{color:var(--soft)}
.state::before{content:"";display:inline-block;width:8px;height:8px;border-radius:50%;margin-right:6px;
background:var(--soft)}
.state.live::before{background:var(--s2)}.state.interrupted::before,.state.stale::before{background:var(--s1)}
.state.gone::before{background:var(--block)}.state.ended::before{background:var(--s0)}
.curve{display:block;overflow:visible}.curve polyline{fill:none;stroke:var(--s0);stroke-width:1.5}
.list td{white-space:normal}.list td:first-child{width:1%}a{color:var(--s0)}
.watch~main .pages{top:36px}
@media print{.watch{display:none}}
)css";
}

const char* live_script() {
  return R"js(
(function(){'use strict';
var bar=document.querySelector('.watch'),follow=bar.querySelector('.follow'),newer=bar.querySelector('.newer');
var cells=(document.querySelector('.list')||bar).querySelectorAll('.state');
var storageKey='keel watch '+location.pathname+location.search,lastInput=0,failures=0;
var stored=function(key,value){try{
 if(value===undefined)return JSON.parse(sessionStorage.getItem(storageKey+key));
 sessionStorage.setItem(storageKey+key,JSON.stringify(value))}catch(error){return null}};
var byName=function(elements,nameOf){var count={},out={};
 Array.prototype.forEach.call(elements,function(element){
  var name=nameOf(element);count[name]=(count[name]||0)+1;out[name+'#'+count[name]]=element});
 return out};
var fields=function(){return byName(document.querySelectorAll('main input,main select,main textarea'),function(field){
 return field.id+'/'+field.name+'/'+(field.type==='checkbox'||field.type==='radio'?field.value:'')})};
var detailsByName=function(){return byName(document.querySelectorAll('main details'),function(details){
 var summary=details.querySelector('summary');return summary?summary.textContent.replace(/[\d.,]+/g,'0'):''})};
var reload=function(){
 var state={x:scrollX,y:scrollY,fields:{},details:{}},each=fields(),key;
 for(key in each)state.fields[key]=[each[key].checked,each[key].value];
 each=detailsByName();for(key in each)state.details[key]=each[key].open;
 stored('',state);location.reload()};
var restore=function(){
 var state=stored(''),each,key;if(!state)return;
 stored('',null);
 each=detailsByName();for(key in each)if(key in state.details)each[key].open=state.details[key];
 each=fields();for(key in each){
  var saved=state.fields[key],field=each[key];
  if(!saved||(field.checked===saved[0]&&field.value===saved[1]))continue;
  field.checked=saved[0];field.value=saved[1];
  field.dispatchEvent(new Event('input',{bubbles:true}));field.dispatchEvent(new Event('change',{bubbles:true}))}
 history.scrollRestoration='manual';scrollTo(state.x,state.y)};
var isInteracting=function(){
 var active=document.activeElement;
 return document.hidden||Date.now()-lastInput<1500||String(getSelection())!==''||
  !!document.querySelector('.pinned:not([hidden])')||
  !!(active&&active.closest&&active.closest('main')&&/^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName)&&
   active.type!=='checkbox')};
var setState=function(cell,word,text){cell.className='state '+word;cell.textContent=text};
var update=function(state){
 var allEnded=state.runs.length>0;failures=0;
 if(state.runs.length===cells.length)state.runs.forEach(function(run,i){
  var row=cells[i].closest('tr');setState(cells[i],run.state,run.text);if(!row)return;
  row.querySelector('.reward').textContent=run.reward;
  row.querySelector('polyline').setAttribute('points',run.curve)});
 state.runs.forEach(function(run){if(run.state!=='ended')allEnded=false});
 var hasChanged=state.version!==bar.dataset.version;newer.hidden=!hasChanged;
 if(hasChanged&&follow.checked&&!isInteracting()){reload();return}
 setTimeout(poll,allEnded?5000:1000)};
var onError=function(){
 if(++failures>1)Array.prototype.forEach.call(cells,function(cell){
  var last=cell.dataset.last||cell.textContent;cell.dataset.last=last;
  setState(cell,'stale',last+' (the server has ended: keel watch shows the run again)')});
 setTimeout(poll,failures>1?5000:1000)};
var poll=function(){
 fetch(bar.dataset.state,{cache:'no-store'}).then(function(reply){
  if(!reply.ok)throw new Error(reply.status);return reply.json()}).then(update,onError)};
['pointerdown','keydown','wheel','touchmove'].forEach(function(kind){
 addEventListener(kind,function(event){if(!event.target.closest||!event.target.closest('.watch'))lastInput=Date.now()},
 {passive:true})});
follow.checked=stored('follow')!==false;
follow.addEventListener('change',function(){stored('follow',follow.checked)});
newer.addEventListener('click',reload);
restore();setTimeout(poll,1000);
})();
)js";
}

}  // namespace keel
